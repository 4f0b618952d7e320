// The event loop, the same cases on both back ends, over real sockets.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/net/reactor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "catch.h"
#include "penstock/net/sockets.h"

namespace penstock::net {
namespace {

constexpr Nanos kMillisecond = 1'000'000;

// Records what happens to it.
class Recorder final : public Stream {
 public:
  explicit Recorder(StreamKind kind = StreamKind::client) : Stream(kind) {}
  void on_connected(int error) override { connect_result = error; }
  void on_data(std::string_view bytes) override {
    received += bytes;
    if (on_bytes) on_bytes();
  }
  void on_sent(std::size_t count) override { sent += count; ++sent_calls; }
  void on_end(int error) override { ends.push_back(error); }
  void on_closed() override { closed = true; }

  std::string received;
  std::size_t sent = 0;
  int sent_calls = 0;
  int connect_result = -1;
  std::vector<int> ends;
  bool closed = false;
  std::function<void()> on_bytes;
};

// A reactor stream on one end of a pair of sockets, a plain blocking descriptor on the other.
struct Pair {
  explicit Pair(Reactor& reactor) {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    peer = fds[1];
    reactor.adopt(stream, fds[0]);
  }
  ~Pair() { close_peer(); }
  void close_peer() {
    if (peer >= 0) ::close(peer);
    peer = -1;
  }
  void write(const std::string& bytes) const {
    REQUIRE(::send(peer, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  Recorder stream;
  int peer = -1;
};

template <typename Condition>
void run_until(Reactor& reactor, Condition condition) {
  const Nanos give_up = monotonic_now() + 5000 * kMillisecond;
  while (!condition() && monotonic_now() < give_up) {
    reactor.turn({.deadline = monotonic_now() + 20 * kMillisecond});
  }
  REQUIRE(condition());
}

void close_all(Reactor& reactor, std::initializer_list<Recorder*> streams) {
  for (Recorder* stream : streams) reactor.close(*stream);
  for (Recorder* stream : streams) run_until(reactor, [&] { return stream->closed; });
}

std::size_t send(Reactor& reactor, Stream& stream, std::string_view bytes) {
  const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  return reactor.send(stream, {&piece, 1});
}

// Runs a case on every back end that works here.
void on_each_engine(const std::function<void(Reactor&)>& test) {
  SECTION("epoll") { test(*make_reactor(Engine::epoll, {})); }
  if (probe_io_uring().usable) {
    SECTION("io_uring") { test(*make_reactor(Engine::io_uring, {})); }
    SECTION("io_uring with next to no room") {
      test(*make_reactor(Engine::io_uring, {.client_buffers = 4,
                                            .client_buffer_bytes = 64,
                                            .node_buffers = 4,
                                            .node_buffer_bytes = 64,
                                            .submission_entries = 4,
                                            .completion_entries = 8}));
    }
  }
}

}  // namespace

TEST_CASE("bytes arrive in order, whatever their number") {
  on_each_engine([](Reactor& reactor) {
    Pair pair(reactor);
    reactor.start_receive(pair.stream);
    std::string sent;
    for (int i = 0; i < 50; ++i) {
      const std::string chunk(static_cast<std::size_t>(i) * 40 + 1,
                              static_cast<char>('a' + i % 26));
      pair.write(chunk);
      sent += chunk;
    }
    run_until(reactor, [&] { return pair.stream.received.size() == sent.size(); });
    CHECK(pair.stream.received == sent);
    close_all(reactor, {&pair.stream});
  });
}

TEST_CASE("many streams share the receive buffers and none starves") {
  on_each_engine([](Reactor& reactor) {
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int i = 0; i < 40; ++i) pairs.push_back(std::make_unique<Pair>(reactor));
    for (auto& pair : pairs) reactor.start_receive(pair->stream);
    for (int round = 0; round < 5; ++round) {
      for (auto& pair : pairs) pair->write(std::string(1000, 'x'));
    }
    for (auto& pair : pairs) {
      run_until(reactor, [&] { return pair->stream.received.size() == 5000; });
    }
    for (auto& pair : pairs) close_all(reactor, {&pair->stream});
  });
}

TEST_CASE("a send that finds no room is finished later") {
  on_each_engine([](Reactor& reactor) {
    Pair pair(reactor);
    const std::string big(8 << 20, 'b');
    std::size_t taken = send(reactor, pair.stream, big);
    std::string got;
    std::thread reader([&] {
      char buffer[65536];
      while (got.size() < big.size()) {
        const ssize_t n = ::recv(pair.peer, buffer, sizeof(buffer), 0);
        if (n <= 0) return;
        got.append(buffer, static_cast<std::size_t>(n));
      }
    });
    std::size_t done = taken == Reactor::kInFlight ? 0 : taken;
    while (done < big.size()) {
      if (!pair.stream.sending()) {
        taken = send(reactor, pair.stream, std::string_view(big).substr(done));
        if (taken != Reactor::kInFlight) done += taken;
        continue;
      }
      const int calls = pair.stream.sent_calls;
      const std::size_t before = pair.stream.sent;
      run_until(reactor, [&] { return pair.stream.sent_calls > calls; });
      done += pair.stream.sent - before;
    }
    reader.join();
    CHECK(got == big);
    close_all(reactor, {&pair.stream});
  });
}

TEST_CASE("a stream that does not want bytes gets them when it wants them again") {
  on_each_engine([](Reactor& reactor) {
    Pair pair(reactor);
    reactor.start_receive(pair.stream);
    pair.write("one");
    run_until(reactor, [&] { return pair.stream.received == "one"; });
    reactor.stop_receive(pair.stream);
    for (int i = 0; i < 3; ++i) reactor.turn({.deadline = monotonic_now() + kMillisecond});
    pair.write("two");
    for (int i = 0; i < 3; ++i) reactor.turn({.deadline = monotonic_now() + kMillisecond});
    reactor.start_receive(pair.stream);
    run_until(reactor, [&] { return pair.stream.received == "onetwo"; });
    close_all(reactor, {&pair.stream});
  });
}

TEST_CASE("stopping and starting again at once loses nothing") {
  on_each_engine([](Reactor& reactor) {
    Pair pair(reactor);
    reactor.start_receive(pair.stream);
    std::string sent;
    for (int i = 0; i < 100; ++i) {
      pair.write("x" + std::to_string(i));
      sent += "x" + std::to_string(i);
      reactor.stop_receive(pair.stream);
      if (i % 3 == 0) reactor.turn({.deadline = 0});
      reactor.start_receive(pair.stream);
      if (i % 2 == 0) reactor.turn({.deadline = 0});
    }
    run_until(reactor, [&] { return pair.stream.received.size() == sent.size(); });
    CHECK(pair.stream.received == sent);
    close_all(reactor, {&pair.stream});
  });
}

TEST_CASE("the end of the peer's bytes is told once, and sending goes on") {
  on_each_engine([](Reactor& reactor) {
    Pair pair(reactor);
    reactor.start_receive(pair.stream);
    pair.write("last");
    ::shutdown(pair.peer, SHUT_WR);
    run_until(reactor, [&] { return !pair.stream.ends.empty(); });
    CHECK(pair.stream.received == "last");
    CHECK(pair.stream.ends == std::vector<int>{0});
    CHECK(send(reactor, pair.stream, "answer") == 6);
    char buffer[16];
    CHECK(::recv(pair.peer, buffer, sizeof(buffer), 0) == 6);
    close_all(reactor, {&pair.stream});
  });
}

TEST_CASE("a send to a peer that is gone breaks the stream") {
  on_each_engine([](Reactor& reactor) {
    Pair pair(reactor);
    pair.close_peer();
    send(reactor, pair.stream, "nobody reads this");
    run_until(reactor, [&] { return !pair.stream.ends.empty(); });
    CHECK(pair.stream.ends.front() != 0);
    close_all(reactor, {&pair.stream});
  });
}

TEST_CASE("closing waits for the kernel, in every state") {
  on_each_engine([](Reactor& reactor) {
    Pair idle(reactor), receiving(reactor), sending(reactor), ended(reactor);
    reactor.start_receive(receiving.stream);
    reactor.start_receive(ended.stream);
    ended.close_peer();
    run_until(reactor, [&] { return !ended.stream.ends.empty(); });
    const std::string big(16 << 20, 'b');
    if (send(reactor, sending.stream, big) != Reactor::kInFlight) {
      send(reactor, sending.stream, big);
    }
    CHECK(sending.stream.sending());
    close_all(reactor, {&idle.stream, &receiving.stream, &sending.stream, &ended.stream});
  });
}

TEST_CASE("a handler may close its own stream") {
  on_each_engine([](Reactor& reactor) {
    Pair pair(reactor);
    pair.stream.on_bytes = [&] {
      pair.stream.on_bytes = nullptr;
      reactor.close(pair.stream);
    };
    reactor.start_receive(pair.stream);
    pair.write("bye");
    run_until(reactor, [&] { return pair.stream.closed; });
  });
}

TEST_CASE("connecting succeeds, or says why not") {
  on_each_engine([](Reactor& reactor) {
    const int listener = open_listening_socket("127.0.0.1:0", 16);
    const Address address = local_address(listener);
    Recorder good(StreamKind::node);
    REQUIRE(reactor.connect(good, address));
    run_until(reactor, [&] { return good.connect_result != -1; });
    CHECK(good.connect_result == 0);
    close_all(reactor, {&good});
    ::close(listener);
    Recorder refused(StreamKind::node);
    REQUIRE(reactor.connect(refused, address));
    run_until(reactor, [&] { return refused.connect_result != -1; });
    CHECK(refused.connect_result == ECONNREFUSED);
    close_all(reactor, {&refused});
  });
}

TEST_CASE("a listener hands over connections until it is stopped") {
  class Acceptor final : public Listener {
   public:
    explicit Acceptor(int fd) : Listener(fd) {}
    void on_accepted(int fd) override {
      ::close(fd);
      ++accepted;
    }
    int accepted = 0;
  };
  on_each_engine([](Reactor& reactor) {
    Acceptor listener(open_listening_socket("127.0.0.1:0", 64));
    const Address address = local_address(listener.fd());
    const auto knock = [&] {
      const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
      REQUIRE(::connect(fd, address.get(), address.length) == 0);
      ::close(fd);
    };
    reactor.listen(listener);
    for (int i = 0; i < 20; ++i) knock();
    run_until(reactor, [&] { return listener.accepted == 20; });
    reactor.stop_listening(listener);
    for (int i = 0; i < 5; ++i) reactor.turn({.deadline = monotonic_now() + kMillisecond});
    knock();
    for (int i = 0; i < 5; ++i) reactor.turn({.deadline = monotonic_now() + kMillisecond});
    CHECK(listener.accepted == 20);
    ::close(listener.fd());
  });
}

TEST_CASE("a wake-up from another thread ends a wait") {
  on_each_engine([](Reactor& reactor) {
    std::thread waker([&] { reactor.wake(); });
    const Nanos began = monotonic_now();
    reactor.turn({.deadline = began + 20'000 * kMillisecond});
    waker.join();
    CHECK(monotonic_now() - began < 15'000 * kMillisecond);
  });
}

TEST_CASE("a worker's reactor ends the wait of another one") {
  on_each_engine([](Reactor& reactor) {
    const Engine engine = reactor.name() == "epoll" ? Engine::epoll : Engine::io_uring;
    std::atomic<Reactor*> sleeper{nullptr};
    std::atomic<Nanos> slept{0};
    std::atomic<bool> over{false};
    std::thread other([&] {
      const auto own = make_reactor(engine, {});
      sleeper = own.get();
      const Nanos began = monotonic_now();
      own->turn({.deadline = began + 20'000 * kMillisecond});
      slept = monotonic_now() - began;
      while (!over) std::this_thread::yield();  // it may be woken for as long as it lives
    });
    run_until(reactor, [&] { return sleeper != nullptr; });
    reactor.wake_other(*sleeper);
    const Nanos give_up = monotonic_now() + 30'000 * kMillisecond;
    while (slept == 0 && monotonic_now() < give_up) {
      reactor.turn({.deadline = monotonic_now() + kMillisecond});
    }
    over = true;
    other.join();
    CHECK(slept < 15'000 * kMillisecond);
  });
}

TEST_CASE("a deadline ends a wait, with and without a tick") {
  on_each_engine([](Reactor& reactor) {
    for (const bool busy : {false, true}) {
      for (const Nanos wait : {3 * kMillisecond, 30 * kMillisecond}) {
        const Nanos deadline = monotonic_now() + wait;
        int turns = 0;
        while (monotonic_now() < deadline && turns++ < 1000) {
          reactor.turn({.deadline = deadline, .busy = busy});
        }
        CHECK(turns < 100);
      }
    }
  });
}

}  // namespace penstock::net
