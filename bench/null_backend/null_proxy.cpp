// The data path without sockets.
// SPDX-License-Identifier: Apache-2.0
#include "null_backend/null_proxy.h"

#include <cstring>
#include <unordered_map>
#include <utility>

#include "penstock/resp/request_scanner.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT
#endif

// The simulated reactor is the one stranger that net::Stream knows.
namespace penstock::net {

class SimulatedReactor : public Reactor {
 protected:
  static void set_descriptor(Stream& stream, int fd) { stream.fd_ = fd; }
  static void set_closing(Stream& stream) { stream.closing_ = true; }
};

}  // namespace penstock::net

namespace penstock::bench {

bool counting = false;

namespace {

// Its scope is the proxy's own code.
struct Counted {
  Counted() {
    counting = true;
    CALLGRIND_TOGGLE_COLLECT;
  }
  ~Counted() {
    CALLGRIND_TOGGLE_COLLECT;
    counting = false;
  }
};

}  // namespace

std::string NullNode::answer(std::string_view bytes) {
  std::string out;
  resp::RequestScanner scanner;
  while (scanner.scan(bytes, {}) == resp::ScanStatus::complete) {
    const resp::Request request = scanner.request(bytes);
    const char kind = static_cast<char>(request[0][0] | 0x20);
    const std::string bulk = "$" + std::to_string(value_.size()) + "\r\n" + value_ + "\r\n";
    if (kind == 'g') {
      out += bulk;
    } else if (kind == 'm' && (request[0][1] | 0x20) == 'g') {
      out += "*" + std::to_string(request.size() - 1) + "\r\n";
      for (std::size_t i = 1; i < request.size(); ++i) out += bulk;
    } else {
      out += "+OK\r\n";
    }
    bytes.remove_prefix(scanner.frame_size());
    scanner.reset();
  }
  return out;
}

// Streams are plain objects here; what pipes send is kept for the nodes, what clients get is counted.
class NullProxy::Reactor final : public net::SimulatedReactor {
 public:
  explicit Reactor(const std::string& value) : node_(value) {}

  std::string_view name() const override { return "null"; }
  void listen(net::Listener&) override {}
  void stop_listening(net::Listener&) override {}
  void wake() override {}
  void turn(const net::Wait&) override {}
  void start_receive(net::Stream&) override {}
  void stop_receive(net::Stream&) override {}
  void adopt(net::Stream& stream, int fd) override {
    set_descriptor(stream, fd);
    clients.push_back(&stream);
  }
  bool connect(net::Stream& stream, const net::Address&) override {
    set_descriptor(stream, ++last_descriptor_);
    connecting.push_back(&stream);
    return true;
  }
  std::size_t send(net::Stream& stream, std::span<const iovec> bytes) override {
    const bool was_counting = std::exchange(counting, false);  // the kernel's work, not ours
    std::size_t size = 0;
    std::string* const kept = stream.fd() > kFirstNode ? &sent_[&stream] : nullptr;
    for (const iovec& piece : bytes) {
      size += piece.iov_len;
      if (kept != nullptr) kept->append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    }
    if (kept == nullptr) client_bytes += size;
    ++sends;
    counting = was_counting;
    return size;
  }
  void close(net::Stream& stream) override {
    set_descriptor(stream, -1);
    set_closing(stream);
    stream.on_closed();
  }

  // Answers everything the pipes have sent, outside of what is counted.
  std::vector<std::pair<net::Stream*, std::string>> take_answers() {
    std::vector<std::pair<net::Stream*, std::string>> answers;
    for (auto& [stream, bytes] : sent_) {
      if (!bytes.empty()) answers.emplace_back(stream, node_.answer(bytes));
      bytes.clear();
    }
    return answers;
  }

  static constexpr int kFirstNode = 2'000'000;
  std::vector<net::Stream*> clients, connecting;
  std::uint64_t client_bytes = 0, sends = 0;

 private:
  NullNode node_;
  int last_descriptor_ = kFirstNode;
  std::unordered_map<net::Stream*, std::string> sent_;
};

NullProxy::NullProxy(std::size_t nodes, std::size_t clients, const std::string& value)
    : reactor_(std::make_unique<Reactor>(value)) {
  cluster::View view;
  for (std::size_t i = 0; i < nodes; ++i) {
    const auto first = static_cast<cluster::Slot>(cluster::kSlots * i / nodes);
    const auto last = static_cast<cluster::Slot>(cluster::kSlots * (i + 1) / nodes - 1);
    const auto port = static_cast<std::uint16_t>(1 + i);
    view.shards.push_back(
        {{"n" + std::to_string(i), {"127.0.0.1", port}, ""}, {}, {{first, last}}, 1});
  }
  topology_ = cluster::Topology::merged(cluster::Topology(), view);
  view_.config = &config_;
  view_.topology = [this] { return topology_; };
  local_ = std::make_unique<admin::LocalCommands>(view_, commands_);
  table_ = std::make_unique<session::SessionTable>(session::SessionServices{
      .worker = 0,
      .random_seed = 1,
      .reactor = *reactor_,
      .blocks = blocks_,
      .resolver = resolver_,
      .mailbox = mailbox_,
      .config = config_,
      .commands = commands_,
      .router = router_,
      .stats = *stats_,
      .memory_used = [] { return std::size_t{0}; },
      .memory_limit = SIZE_MAX,
      .local = *local_,
      .request_refresh = [] {},
      .cluster_trouble = [] { return std::string(); },
      .gather = [](admin::GatherJob, const std::function<void(std::string)>&) {}});
  table_->on_topology(topology_);
  for (std::size_t i = 0; i < clients; ++i) {
    table_->add_client(1'000'000 + static_cast<int>(i), i + 1);
  }
}

NullProxy::~NullProxy() { table_->close_all(); }

void NullProxy::settle() {
  for (net::Stream* stream : std::exchange(reactor_->connecting, {})) stream->on_connected(0);
  const Counted counted;
  table_->end_turn();
}

void NullProxy::round(std::string_view bytes) {
  {
    const Counted counted;
    for (net::Stream* client : reactor_->clients) client->on_data(bytes);
  }
  settle();
  for (auto answers = reactor_->take_answers(); !answers.empty() || !reactor_->connecting.empty();
       answers = reactor_->take_answers()) {
    {
      const Counted counted;
      for (const auto& [stream, replies] : answers) stream->on_data(replies);
    }
    settle();
  }
}

std::uint64_t NullProxy::reply_bytes() const { return reactor_->client_bytes; }
std::uint64_t NullProxy::sends() const { return reactor_->sends; }

}  // namespace penstock::bench
