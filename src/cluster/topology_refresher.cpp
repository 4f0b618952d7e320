// Keeps the map current.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cluster/topology_refresher.h"

#include <algorithm>
#include <utility>

#include "cluster/node_query.h"
#include "penstock/log/log.h"

namespace penstock::cluster {
namespace {

using std::chrono::milliseconds;

// The least time between two refreshes: a redirect storm makes at most ten a second.
constexpr milliseconds kGap{100};
// While the cluster is down or nobody answers, look again this often, doubling.
constexpr milliseconds kFirstBackOff{200};
constexpr milliseconds kLongestBackOff{2000};
// What a node is asked, in this order.
const std::vector<std::string> kQuestions[] = {{"CLUSTER", "INFO"},
                                               {"CLUSTER", "NODES"},
                                               {"CLUSTER", "SLOTS"},
                                               {"CLUSTER", "SHARDS"},
                                               {"INFO", "server"}};
// A node for each slot: far more than the thousand that the servers are made for.
constexpr std::size_t kNodesMax = kSlots;
// After a view that cannot be trusted (a node that is behind or cut off), ask this many more.
constexpr int kSecondOpinions = 2;

}  // namespace

TopologyRefresher::TopologyRefresher(Options options, Dial dial, Publish publish)
    : options_(std::move(options)), dial_(std::move(dial)), publish_(std::move(publish)) {
  thread_ = std::thread([this] { run(); });
}

TopologyRefresher::~TopologyRefresher() { stop(); }

void TopologyRefresher::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TopologyRefresher::request() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(requested_, true)) return;
  }
  changed_.notify_all();
}

std::shared_ptr<const Topology> TopologyRefresher::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::string TopologyRefresher::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void TopologyRefresher::run() {
  while (wait_for_next()) refresh();
}

// Sleeps until the next refresh is due; false when it is time to stop.
bool TopologyRefresher::wait_for_next() {
  std::unique_lock lock(mutex_);
  const auto stopped = [this] { return stopping_; };
  if (failures_in_a_row_ > 0) {
    const milliseconds longest =
        std::min(kLongestBackOff, kFirstBackOff * (1 << std::min(failures_in_a_row_ - 1, 8U)));
    std::uniform_int_distribution<std::int64_t> jitter(longest.count() / 2, longest.count());
    return !changed_.wait_for(lock, milliseconds(jitter(random_)), stopped);
  }
  if (changed_.wait_for(lock, kGap, stopped)) return false;
  changed_.wait_for(lock, options_.interval, [this] { return stopping_ || requested_; });
  return !stopping_;
}

bool TopologyRefresher::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void TopologyRefresher::refresh() {
  {
    const std::lock_guard lock(mutex_);
    requested_ = false;
  }
  int opinions = 0;
  bool trusted = false, usable = false;
  for (const Endpoint& node : candidates()) {
    const std::optional<View> view = ask(node);
    if (is_stopping()) return;
    if (!view) continue;
    const std::shared_ptr<const Topology> before = current();
    usable = usable || view->state_ok;
    trusted = view->state_ok && view->current_epoch >= before->current_epoch();
    take(Topology::merged(*before, *view));
    if (trusted || ++opinions > kSecondOpinions) break;
  }
  if (!usable) take(Topology::down(*current()));
  stats_.refreshes.add();
  if (!trusted) stats_.failures.add();
  const std::lock_guard lock(mutex_);
  failures_in_a_row_ = trusted ? 0 : failures_in_a_row_ + 1;
  if (trusted) {
    last_error_.clear();
  } else if (opinions == 0) {
    last_error_ = "no node of the cluster answers";
  } else {
    last_error_ = "the cluster is down";
  }
}

// Every node worth asking: those of the map in random order, then the seeds.
std::vector<Endpoint> TopologyRefresher::candidates() {
  std::vector<Endpoint> nodes;
  for (const Shard& shard : current()->shards()) {
    nodes.push_back(shard.master.endpoint);
    for (const NodeInfo& replica : shard.replicas) nodes.push_back(replica.endpoint);
  }
  std::shuffle(nodes.begin(), nodes.end(), random_);
  for (const Endpoint& seed : options_.seeds) {
    if (std::find(nodes.begin(), nodes.end(), seed) == nodes.end()) nodes.push_back(seed);
  }
  return nodes;
}

std::optional<View> TopologyRefresher::ask(const Endpoint& node) {
  const int fd = dial_(node, options_.timeout);
  if (fd < 0) {
    LOG_LIMITED(warn, "topology: cannot connect to {}", to_string(node));
    return std::nullopt;
  }
  NodeQuery query(fd, options_.timeout);
  std::vector<std::vector<std::string>> commands(std::begin(kQuestions), std::end(kQuestions));
  log_in_first(commands, options_.username, options_.password);
  if (!query.send(commands)) return std::nullopt;
  std::vector<std::string> answers;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    std::optional<std::string> reply = query.read();
    if (!reply) {
      LOG_LIMITED(warn, "topology: {} does not answer", to_string(node));
      return std::nullopt;
    }
    answers.push_back(std::move(*reply));
  }
  if (!options_.password.empty()) answers.erase(answers.begin());
  return understand(answers, node);
}

// CLUSTER SLOTS tells the endpoints that clients are to use; CLUSTER NODES and INFO tell how old
// the node's knowledge is. Where SLOTS is refused, SHARDS or NODES will do.
std::optional<View> TopologyRefresher::understand(const std::vector<std::string>& answers,
                                                  const Endpoint& node) const {
  const std::optional<View> nodes = parse_cluster_nodes(answers[1], node);
  const std::optional<View> shards = parse_cluster_shards(answers[3], node);
  std::optional<View> view = parse_cluster_slots(answers[2], node);
  // SLOTS does not tell of masters without slots; SHARDS does, by the name that clients are to use.
  if (view && shards) view->slotless = shards->slotless;
  if (!view) view = shards;
  if (!view) view = nodes;
  if (!view) {
    LOG_LIMITED(warn, "topology: {} sent no usable map: {}", to_string(node),
                answers[2].substr(0, std::min<std::size_t>(answers[2].find('\r'), 120)));
    return std::nullopt;
  }
  const std::string_view problem = problem_of(*view, nodes ? *nodes : *view);
  if (!problem.empty()) {
    LOG_LIMITED(warn, "topology: {} {}", to_string(node), problem);
    return std::nullopt;
  }
  if (nodes) apply_nodes(*nodes, *view);
  apply_cluster_info(answers[0], *view);
  apply_server_info(answers[4], *view);
  return view;
}

// Why a node's map is of no use; empty: it is of use.
std::string_view TopologyRefresher::problem_of(const View& view, const View& nodes) const {
  if (std::count(nodes.known_ids.begin(), nodes.known_ids.end(), options_.self) > 0) {
    return "is this proxy itself";
  }
  std::size_t named = view.slotless.size() + nodes.slotless.size();
  for (const Shard& shard : view.shards) named += 1 + shard.replicas.size();
  if (named > kNodesMax) return "names more nodes than a cluster can have";
  return view.shards.empty() ? "knows of no slots" : "";
}

void TopologyRefresher::take(std::shared_ptr<const Topology> after) {
  if (after->same_as(*current())) return;
  stats_.changes.add();
  // Workers first: whoever is told that the cluster is known must find it known.
  publish_(after);
  {
    const std::lock_guard lock(mutex_);
    current_ = after;
  }
  spdlog::info("topology: version {}, epoch {}, {} shards, {} of {} slots, state {}",
               after->version(), after->current_epoch(), after->shards().size(),
               after->slots_covered(), kSlots, after->state_ok() ? "ok" : "fail");
}

}  // namespace penstock::cluster
