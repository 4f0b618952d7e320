// A worker's pipes.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/backend/pipe_pool.h"

#include <utility>

namespace penstock::backend {
namespace {

// Ticks further apart than this mean that the worker did not get to run: an idle one still ticks
// ten times a second.
constexpr Micros kStall = 500'000;

}  // namespace

void PipePool::set_node(std::uint16_t index, const net::HostPort& address) {
  if (index >= addresses_.size()) {
    addresses_.resize(index + 1U);
    pipes_.resize((index + 1U) * 2 * lanes_);
  }
  addresses_[index] = std::make_unique<net::HostPort>(address);
}

void PipePool::make_pipe(std::uint16_t index, resp::Protocol protocol, std::size_t place) {
  pipes_[place] = std::make_unique<Pipe>(context_, *addresses_[index], protocol);
  if (context_.observe) pipes_[place]->set_observer(context_.observe(*pipes_[place]));
}

void PipePool::remove_node(std::uint16_t index) {
  const std::size_t first = place_of(index, resp::Protocol::resp2, 0);
  for (std::size_t place = first; place < first + 2 * lanes_; ++place) {
    if (pipes_[place] == nullptr) continue;
    leaving_.push_back(std::move(pipes_[place]));
    leaving_.back()->retire();
    leaving_.back()->return_unsent();
  }
  addresses_[index].reset();
}

void PipePool::retire_leaving() {
  std::erase_if(leaving_, [this](const std::unique_ptr<Pipe>& pipe) {
    if (!pipe->retire()) return false;
    std::erase(context_.dirty, pipe.get());
    return true;
  });
}

void PipePool::return_stuck() {
  for_each([](Pipe& pipe) {
    if (!pipe.trouble().empty()) pipe.return_unsent();
  });
}

void PipePool::flush() {
  // Flushing never makes another pipe dirty, but may make this one so again.
  std::vector<Pipe*> dirty;
  dirty.swap(context_.dirty);
  for (Pipe* pipe : dirty) pipe->flush();
  dirty.clear();
  if (context_.dirty.empty()) context_.dirty.swap(dirty);  // keeps the memory
}

void PipePool::tick() {
  const Micros now = context_.reactor.now_us();
  const Micros since = now - std::exchange(last_tick_, now);
  if (ticked_ && since > kStall) for_each([since](Pipe& pipe) { pipe.excuse(since); });
  ticked_ = true;
  for_each([](Pipe& pipe) { pipe.tick(); });
  retire_leaving();
}

void PipePool::close_all() {
  for_each([](Pipe& pipe) { pipe.shut_down(); });
}

bool PipePool::is_closed() {
  bool closed = true;
  for_each([&](Pipe& pipe) { closed = closed && pipe.is_shut_down(); });
  return closed;
}

void PipePool::for_each_of(std::uint16_t index, const std::function<void(Pipe&)>& visit) {
  const std::size_t first = place_of(index, resp::Protocol::resp2, 0);
  for (std::size_t place = first; place < first + 2 * lanes_; ++place) {
    if (pipes_[place] != nullptr) visit(*pipes_[place]);
  }
}

void PipePool::for_each(const std::function<void(Pipe&)>& visit) {
  for (const auto& pipe : pipes_) {
    if (pipe != nullptr) visit(*pipe);
  }
  for (const auto& pipe : leaving_) visit(*pipe);
}

}  // namespace penstock::backend
