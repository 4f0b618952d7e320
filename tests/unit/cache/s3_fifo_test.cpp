// Hit ratios of the eviction on traces, against LRU and against two generations that take turns.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/cache/s3_fifo.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "catch.h"

namespace penstock::cache {
namespace {

using Key = std::uint32_t;
using Trace = std::vector<Key>;

constexpr std::size_t kKeys = 50'000;
constexpr std::size_t kRequests = 400'000;

class ZipfKeys {
 public:
  explicit ZipfKeys(double exponent) : sums_(kKeys) {
    double sum = 0;
    for (std::size_t i = 0; i < kKeys; ++i) {
      sums_[i] = sum += 1 / std::pow(static_cast<double>(i + 1), exponent);
    }
  }
  Key operator()(std::mt19937& random) {
    std::uniform_real_distribution<double> uniform(0, sums_.back());
    return static_cast<Key>(std::lower_bound(sums_.begin(), sums_.end(), uniform(random)) -
                            sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

Trace zipf_trace(double exponent) {
  std::mt19937 random(1);
  ZipfKeys next(exponent);
  Trace trace(kRequests);
  for (Key& key : trace) key = next(random);
  return trace;
}

// The popular keys are others from one moment to the next, `shifts` times.
Trace shifting_trace(std::size_t shifts) {
  Trace trace = zipf_trace(0.99);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    trace[i] += static_cast<Key>(i / (kRequests / shifts) * kKeys);
  }
  return trace;
}

// Hot keys that are replaced one by one, among keys that are asked for once.
Trace sliding_trace() {
  std::mt19937 random(1);
  Trace trace(kRequests);
  for (std::size_t i = 0; i < kRequests; ++i) {
    const bool hot = random() % 100 < 70;
    const auto base = static_cast<Key>(i / 200);
    trace[i] = hot ? base + static_cast<Key>(random() % 4000) : 10'000'000 + static_cast<Key>(i);
  }
  return trace;
}

// Zipf, and now and then somebody reads everything once.
Trace scanned_trace() {
  Trace trace = zipf_trace(0.99);
  for (std::size_t i = 0; i < kRequests; ++i) {
    if (i / 10'000 % 3 == 2) trace[i] = 10'000'000 + static_cast<Key>(i);
  }
  return trace;
}

double ratio(std::size_t hits) { return static_cast<double>(hits) / kRequests; }

double s3_fifo(const Trace& trace, std::size_t capacity) {
  struct Node : QueueNode {
    Key key = 0;
  };
  S3Fifo queues;
  std::unordered_map<Key, std::unique_ptr<Node>> nodes;
  std::vector<Key> ghosts(capacity, UINT32_MAX);  // as the reply cache has them
  std::size_t hits = 0;
  for (const Key key : trace) {
    if (const auto found = nodes.find(key); found != nodes.end()) {
      found->second->hit = true;
      ++hits;
      continue;
    }
    while (nodes.size() >= capacity) {
      const auto* victim = static_cast<Node*>(queues.evict(capacity));
      if (!victim->in_main) ghosts[victim->key % capacity] = victim->key;
      nodes.erase(victim->key);
    }
    auto node = std::make_unique<Node>();
    node->key = key;
    node->bytes = 1;
    queues.insert(*node, ghosts[key % capacity] == key);
    nodes.emplace(key, std::move(node));
  }
  return ratio(hits);
}

double lru(const Trace& trace, std::size_t capacity) {
  std::list<Key> order;
  std::unordered_map<Key, std::list<Key>::iterator> places;
  std::size_t hits = 0;
  for (const Key key : trace) {
    if (const auto found = places.find(key); found != places.end()) {
      order.splice(order.begin(), order, found->second);
      ++hits;
      continue;
    }
    order.push_front(key);
    places[key] = order.begin();
    if (places.size() <= capacity) continue;
    places.erase(order.back());
    order.pop_back();
  }
  return ratio(hits);
}

double two_generations(const Trace& trace, std::size_t capacity) {
  std::unordered_set<Key> young, old;
  std::size_t hits = 0;
  for (const Key key : trace) {
    if (young.count(key) > 0) {
      ++hits;
      continue;
    }
    hits += old.count(key);
    young.insert(key);
    if (young.size() < capacity / 2) continue;
    old.swap(young);
    young.clear();
  }
  return ratio(hits);
}

}  // namespace

TEST_CASE("more of what is asked for is there than with LRU or two generations, in every trace",
          "[traces]") {
  const std::pair<std::string, Trace> traces[] = {
      {"zipf 0.7", zipf_trace(0.7)},   {"zipf 0.9", zipf_trace(0.9)},
      {"zipf 0.99", zipf_trace(0.99)}, {"zipf 1.2", zipf_trace(1.2)},
      {"zipf 0.99, others after 100000", shifting_trace(4)},
      {"a hot set that slides", sliding_trace()},
      {"zipf 0.99 and scans", scanned_trace()}};
  for (const auto& [name, trace] : traces) {
    for (const std::size_t capacity : {kKeys / 100, kKeys / 20}) {
      const double ours = s3_fifo(trace, capacity);
      const double recent = lru(trace, capacity), turns = two_generations(trace, capacity);
      std::printf("%-32s %5zu entries: S3-FIFO %.4f, LRU %.4f, two generations %.4f\n",
                  name.c_str(), capacity, ours, recent, turns);
      INFO(name << ", " << capacity << " entries");
      CHECK(ours > recent);
      CHECK(ours > turns);
    }
  }
}

TEST_CASE("what was removed is not evicted, and bytes add up") {
  S3Fifo queues;
  QueueNode nodes[10];
  for (QueueNode& node : nodes) {
    node.bytes = 10;
    queues.insert(node, false);
  }
  CHECK(queues.bytes() == 100);
  queues.remove(nodes[0]);
  queues.remove(nodes[5]);
  nodes[1].hit = true;
  CHECK(queues.bytes() == 80);
  CHECK(queues.evict(0) == &nodes[2]);  // the oldest that was not hit
  CHECK(nodes[1].in_main);
  for (int left = 7; left > 0; --left) CHECK(queues.evict(0) != nullptr);
  CHECK(queues.evict(0) == nullptr);
  CHECK(queues.bytes() == 0);
}

}  // namespace penstock::cache
