// The data path without sockets.
// SPDX-License-Identifier: Apache-2.0
#include "null_backend/null_proxy.h"

#include <unordered_map>
#include <utility>

#include "null_backend/null_reactor.h"
#include "penstock/resp/request_scanner.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_ZERO_STATS
#endif

namespace penstock::bench {

bool counting = false;

namespace {

// Begins or ends what is counted.
void set_counting(bool on) {
  if (counting == on) return;
  counting = on;
  CALLGRIND_TOGGLE_COLLECT;
}

// Masters that share the slots.
std::shared_ptr<const cluster::Topology> topology_of(std::size_t nodes) {
  cluster::View view;
  for (std::size_t i = 0; i < nodes; ++i) {
    const auto first = static_cast<cluster::Slot>(cluster::kSlots * i / nodes);
    const auto last = static_cast<cluster::Slot>(cluster::kSlots * (i + 1) / nodes - 1);
    const auto port = static_cast<std::uint16_t>(1 + i);
    view.shards.push_back(
        {{"n" + std::to_string(i), {"127.0.0.1", port}, ""}, {}, {{first, last}}, 1});
  }
  return cluster::Topology::merged(cluster::Topology(), view);
}

// Its scope is the proxy's own code.
struct Counted {
  Counted() { set_counting(true); }
  ~Counted() { set_counting(false); }
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

// What pipes send is kept for the nodes, what clients get is counted.
class NullProxy::Reactor final : public NullReactor {
 public:
  explicit Reactor(const std::string& value) : node_(value) {}

  // Answers everything the pipes have sent, outside of what is counted.
  std::vector<std::pair<net::Stream*, std::string>> take_answers() {
    std::vector<std::pair<net::Stream*, std::string>> answers;
    for (auto& [stream, bytes] : sent_) {
      if (!bytes.empty()) answers.emplace_back(stream, node_.answer(bytes));
      bytes.clear();
    }
    return answers;
  }

  std::uint64_t client_bytes = 0, sends = 0;

 private:
  // The kernel's work, not ours.
  void on_send(net::Stream& stream, std::span<const iovec> pieces, std::size_t size) override {
    const bool was_counting = counting;
    set_counting(false);
    ++sends;
    if (leads_to_node(stream)) {
      std::string& kept = sent_[&stream];
      for (const iovec& piece : pieces) {
        kept.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
      }
    } else {
      client_bytes += size;
    }
    set_counting(was_counting);
  }

  NullNode node_;
  std::unordered_map<net::Stream*, std::string> sent_;
};

struct NullProxy::Worker {
  net::BlockPool blocks;
  net::Mailbox mailbox;
  cluster::Router router;
  stats::WorkerStats stats;
  std::unique_ptr<session::SessionTable> table;
};

NullProxy::NullProxy(std::size_t nodes, std::size_t clients, const std::string& value,
                     bool shared)
    : reactor_(std::make_unique<Reactor>(value)), exchange_(shared ? 2 : 1) {
  if (shared) exchange_.set_mode(sharding::Mode::shared);
  topology_ = topology_of(nodes);
  view_.config = &config_;
  view_.topology = [this] { return topology_; };
  local_ = std::make_unique<admin::LocalCommands>(view_, commands_);
  for (std::size_t i = 0; i < exchange_.workers(); ++i) add_worker();
  for (std::size_t i = 0; i < clients; ++i) {
    workers_[i % workers_.size()]->table->add_client(1'000'000 + static_cast<int>(i), i + 1);
  }
}

void NullProxy::add_worker() {
  Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
  worker.table = std::make_unique<session::SessionTable>(session::SessionServices{
      .worker = static_cast<std::uint16_t>(workers_.size() - 1),
      .random_seed = 1,
      .reactor = *reactor_,
      .blocks = worker.blocks,
      .resolver = resolver_,
      .mailbox = worker.mailbox,
      .config = config_,
      .commands = commands_,
      .router = worker.router,
      .exchange = exchange_,
      .stats = worker.stats,
      .cache = cache_,
      .tracking = tracking_,
      .memory_used = [] { return std::size_t{0}; },
      .memory_limit = SIZE_MAX,
      .local = *local_,
      .request_refresh = [] {},
      .cluster_trouble = [] { return std::string(); },
      .gather = [](admin::GatherJob, const std::function<void(std::string)>&) {}});
  worker.table->on_topology(topology_,
                            sharding::OwnerPlan::next({}, *topology_, exchange_.workers()));
  worker.table->take_mail();  // and the mode
}

NullProxy::~NullProxy() {
  for (const auto& worker : workers_) worker->table->close_all();
}

// Turns of all workers until nothing is under way between them.
void NullProxy::settle() {
  for (net::Stream* stream : reactor_->take_connecting()) stream->on_connected(0);
  const Counted counted;
  for (bool again = true; again;) {
    again = false;
    for (const auto& worker : workers_) {
      if (workers_.size() > 1) worker->table->take_mail();
      worker->table->end_turn();
    }
    if (workers_.size() == 1) return;
    for (const auto& worker : workers_) again = worker->table->fall_asleep() == nullptr || again;
  }
}

void NullProxy::round(std::string_view bytes) {
  {
    const Counted counted;
    for (net::Stream* client : reactor_->clients()) client->on_data(bytes);
  }
  settle();
  for (auto answers = reactor_->take_answers(); !answers.empty() || reactor_->has_connecting();
       answers = reactor_->take_answers()) {
    {
      const Counted counted;
      for (const auto& [stream, replies] : answers) stream->on_data(replies);
    }
    settle();
  }
}

void NullProxy::forget_instructions() { CALLGRIND_ZERO_STATS; }
std::uint64_t NullProxy::reply_bytes() const { return reactor_->client_bytes; }
std::uint64_t NullProxy::sends() const { return reactor_->sends; }

}  // namespace penstock::bench
