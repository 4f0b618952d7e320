// A reactor whose sockets are wires of a simulated world.
// SPDX-License-Identifier: Apache-2.0
#include "simulation/simulated_reactor.h"

#include <cstring>
#include <utility>

#include "penstock/log/check.h"

namespace penstock::net {

void SimulatedReactor::attach(Stream& stream) {
  const int fd = stream.fd_;
  const auto& wire = wires_[fd];
  wire->to_proxy = [this, &stream, fd](std::string_view bytes) {
    kept_[fd] += bytes;
    deliver_kept(stream, fd);
  };
  wire->proxy_end = [this, &stream, fd](int error) {
    if (!owns(stream, fd)) return;
    const bool known = error == 0 ? stream.ended_ : stream.broken_;
    stream.ended_ = true;
    stream.broken_ = stream.broken_ || error != 0;
    set_now(world_.now());
    if (!known) stream.on_end(error);
  };
}

void SimulatedReactor::deliver_kept(Stream& stream, int fd) {
  if (!owns(stream, fd) || !stream.receiving_) return;
  std::string bytes;
  bytes.swap(kept_[fd]);
  if (bytes.empty()) return;
  set_now(world_.now());
  // In a block of its exact size, so that a sanitizer sees a read of one byte too many.
  const std::unique_ptr<char[]> exact(new char[bytes.size()]);
  std::memcpy(exact.get(), bytes.data(), bytes.size());
  stream.on_data({exact.get(), bytes.size()});
}

std::size_t SimulatedReactor::send(Stream& stream, std::span<const iovec> bytes) {
  CHECK(!stream.sending_ && !stream.closing_);
  std::string all;
  for (const iovec& piece : bytes) {
    all.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
  }
  stats_.sends.add();
  const auto size = static_cast<std::int64_t>(all.size());
  const std::size_t taken =
      static_cast<std::size_t>(world_.chance(80) ? size : world_.pick(1, size));
  const auto& wire = wires_[stream.fd_];
  if (world_.chance(50)) {
    wire->send_to_peer(std::string_view(all).substr(0, taken));
    return taken;
  }
  // In flight: the bytes must stay as they are until it is reported.
  stream.sending_ = true;
  const int fd = stream.fd_;
  const std::vector<iovec> pieces(bytes.begin(), bytes.end());
  world_.after(world_.pick(1, 300) * simulation::kMicrosecond,
               [this, &stream, fd, pieces, all, taken] {
    if (!owns(stream, fd)) return;
    std::string now_there;
    for (const iovec& piece : pieces) {
      now_there.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    }
    CHECK(now_there == all);
    wires_[fd]->send_to_peer(std::string_view(all).substr(0, taken));
    stream.sending_ = false;
    set_now(world_.now());
    if (!stream.broken_) stream.on_sent(taken);
  });
  return kInFlight;
}

void SimulatedReactor::close(Stream& stream) {
  CHECK(!stream.closing_);
  stream.closing_ = true;
  const int fd = stream.fd_;
  if (const auto& wire = wires_[fd]) wire->close_by_proxy();
  world_.after(world_.pick(0, 300) * simulation::kMicrosecond, [this, &stream, fd] {
    wires_.erase(fd);
    kept_.erase(fd);
    stream.fd_ = -1;
    stream.closing_ = stream.ended_ = stream.broken_ = false;
    stream.connecting_ = stream.receiving_ = false;
    set_now(world_.now());
    if (std::exchange(stream.sending_, false)) stream.on_sent(0);
    stream.on_closed();
  });
}

}  // namespace penstock::net
