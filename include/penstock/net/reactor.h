// The event loop of one worker: a completion-style interface with two back ends, io_uring and
// epoll. Everything here is called and calls back on the worker's own thread, but Reactor::wake().
// Facts and figures behind the choices: docs/decisions/0002-event-loop.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "penstock/net/address.h"
#include "penstock/stats/counter.h"

namespace penstock::net {

// Monotonic time in nanoseconds.
using Nanos = std::int64_t;
Nanos monotonic_now();

// Which receive buffers a stream uses: many small ones, or a few large ones.
enum class StreamKind : std::uint8_t { client, node };

// One connected socket. Its owner derives from it; the reactor calls the handlers.
// Closing is a protocol: Reactor::close(), then wait for on_closed(), then destroy.
class Stream {
 public:
  explicit Stream(StreamKind kind) : kind_(kind) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream();

  // The connection stands (0) or failed (errno).
  virtual void on_connected(int error) = 0;
  // Bytes arrived. They are good for this call only. Some may still come after stop_receive().
  virtual void on_data(std::string_view bytes) = 0;
  // The send in flight took `count` bytes; 0 means only that the socket takes bytes again.
  virtual void on_sent(std::size_t count) = 0;
  // 0: the peer will send nothing more; sending may go on. An errno: the connection is broken.
  // Called at most once each.
  virtual void on_end(int error) = 0;
  // The kernel has given everything back; the stream may be destroyed in this call.
  virtual void on_closed() = 0;

  int fd() const { return fd_; }
  bool sending() const { return sending_; }

 private:
  friend class EpollReactor;
  friend class SimulatedReactor;  // tests/simulation and bench/null_backend
  friend class UringReactor;

  int fd_ = -1;
  const StreamKind kind_;
  std::uint8_t pending_ = 0;   // io_uring: operations the kernel still holds
  std::uint8_t interest_ = 0;  // epoll: the events it is registered for
  bool receiving_ = false;     // true exactly when the owner wants bytes
  bool armed_ = false;         // true exactly when the kernel is to report bytes
  bool sending_ = false;       // true exactly when a send has not been reported
  bool connecting_ = false;
  bool ended_ = false;         // true exactly when nothing more is received
  bool broken_ = false;        // true exactly when on_end(errno) was called or is queued
  bool closing_ = false;
  bool released_ = false;      // true exactly when on_closed() is due
  bool cut_short_ = false;     // epoll: true exactly when close() met a send in flight
  int end_error_ = 0;          // for a queued on_end()
};

// A listening socket and who takes its connections.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_accepted(int fd) = 0;
  int fd() const { return fd_; }

 protected:
  explicit Listener(int fd) : fd_(fd) {}

 private:
  friend class EpollReactor;
  friend class UringReactor;

  int fd_;
  bool armed_ = false;
  bool wanted_ = false;  // true exactly when the owner wants connections
};

// Counts of one reactor; readable from any thread.
struct ReactorStats {
  stats::Counter turns, enters, events, receives, sends, received_bytes, sent_bytes;
  stats::Counter buffers_exhausted, accept_pauses;
};

// How one turn waits.
struct Wait {
  Nanos deadline = 0;         // until then at the latest
  bool busy = false;          // true while requests are outstanding: time-outs may be near
  Nanos batch_wait = 0;       // wait this long for more than one event
  unsigned batch_events = 1;  // so many end that wait
  std::atomic<bool>* asleep = nullptr;  // set to false as soon as the wait is over
};

struct ReactorOptions {
  // Receive buffers, provided to the kernel: for clients 4 MiB, for nodes 2 MiB. Larger ones make
  // fewer completions of a pipeline or a large value, more of them leave the second-level cache.
  unsigned client_buffers = 128;
  unsigned client_buffer_bytes = 32768;
  unsigned node_buffers = 32;
  unsigned node_buffer_bytes = 65536;
  unsigned submission_entries = 1024;
  unsigned completion_entries = 4096;
};

class Reactor {
 public:
  // What a send() did at once.
  static constexpr std::size_t kInFlight = SIZE_MAX;

  virtual ~Reactor() = default;

  virtual std::string_view name() const = 0;

  virtual void listen(Listener& listener) = 0;
  virtual void stop_listening(Listener& listener) = 0;

  // Makes a connected, non-blocking socket the stream's own.
  virtual void adopt(Stream& stream, int fd) = 0;
  // Connects the stream to `address`; on_connected() tells. False when there is no socket to be
  // had.
  virtual bool connect(Stream& stream, const Address& address) = 0;
  virtual void start_receive(Stream& stream) = 0;
  virtual void stop_receive(Stream& stream) = 0;
  // Sends bytes that stay where they are until they were reported. At most one send is in flight
  // per stream. Returns the count taken at once, or kInFlight: then on_sent() follows,
  // with what the kernel took, before on_closed() at the latest.
  virtual std::size_t send(Stream& stream, std::span<const iovec> bytes) = 0;
  virtual void close(Stream& stream) = 0;

  // Makes a turn() that waits, or the next one, return soon; from any thread.
  virtual void wake() = 0;

  // The same for another worker's reactor of this kind, called on this one's thread; may take
  // effect with the next turn() only.
  virtual void wake_other(Reactor& other) { other.wake(); }

  // One turn: waits until there is an event, the deadline or a wake(), then calls the handlers.
  virtual void turn(const Wait& wait) = 0;

  // The time when the last wait ended; and in microseconds, modulo 2^32.
  Nanos now() const { return now_; }
  std::uint32_t now_us() const { return now_us_; }
  const ReactorStats& stats() const { return stats_; }

 protected:
  void set_now(Nanos now) {
    now_ = now;
    now_us_ = static_cast<std::uint32_t>(now / 1000);
  }

  ReactorStats stats_;

 private:
  Nanos now_ = monotonic_now();
  std::uint32_t now_us_ = static_cast<std::uint32_t>(now_ / 1000);
};

enum class Engine : std::uint8_t { io_uring, epoll };

// Whether io_uring can be used here: tries a ring with everything the back end needs, once.
// `cure` says in one line what to change when it cannot.
struct UringProbe {
  bool usable = false;
  bool refused = false;  // by the kernel or a seccomp profile (ENOSYS, EPERM, EACCES, EINVAL)
  int error = 0;
  std::string cure;
};
UringProbe probe_io_uring();

// Throws std::system_error when the kernel does not give what it needs.
std::unique_ptr<Reactor> make_reactor(Engine engine, const ReactorOptions& options);

}  // namespace penstock::net
