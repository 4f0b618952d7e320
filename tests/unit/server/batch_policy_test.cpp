// When a worker waits for a batch, and for how long.
// SPDX-License-Identifier: Apache-2.0
#include "server/batch_policy.h"

#include "catch.h"

namespace penstock::server {
namespace {

constexpr net::Nanos kLongest = 200'000;

LoadSample sample(std::size_t clients, std::size_t outstanding, std::uint64_t receives,
                  int busy_percent) {
  return {.elapsed = BatchPolicy::kPeriod,
          .cpu = BatchPolicy::kPeriod * busy_percent / 100,
          .active_clients = clients,
          .peak_outstanding = outstanding,
          .receives = receives};
}

net::Nanos wait_after(const LoadSample& load) {
  BatchPolicy policy(kLongest);
  policy.add(load);
  return policy.wait();
}

}  // namespace

TEST_CASE("an idle proxy never waits") {
  CHECK(BatchPolicy(kLongest).wait() == 0);
  CHECK(wait_after(sample(0, 0, 0, 0)) == 0);
  CHECK(wait_after(sample(100, 100, 500, 5)) == 0);
}

TEST_CASE("one client never waits, however busy") { CHECK(wait_after(sample(1, 1, 500, 90)) == 0); }

TEST_CASE("a pool of connections used by one thread never waits") {
  CHECK(wait_after(sample(100, 1, 500, 90)) == 0);
}

TEST_CASE("many busy clients wait a sixteenth of their round") {
  // 50 clients, 2500 receives in 50 ms: each comes round in 1 ms.
  CHECK(wait_after(sample(50, 50, 2500, 50)) == 62'500);
}

TEST_CASE("the wait has a longest, and is not worth it below a shortest") {
  CHECK(wait_after(sample(1000, 1000, 2500, 50)) == kLongest);
  CHECK(wait_after(sample(16, 16, 50'000, 90)) == 0);
}

TEST_CASE("waiting makes a worker less busy, and does not stop it from waiting") {
  BatchPolicy policy(kLongest);
  policy.add(sample(50, 50, 2500, 25));
  CHECK(policy.wait() > 0);
  policy.add(sample(50, 50, 2500, 12));
  CHECK(policy.wait() > 0);
  policy.add(sample(50, 50, 2500, 5));
  CHECK(policy.wait() == 0);
  policy.add(sample(50, 50, 2500, 12));
  CHECK(policy.wait() == 0);
}

TEST_CASE("a configured longest wait of zero turns it off") {
  BatchPolicy policy(0);
  policy.add(sample(50, 50, 2500, 50));
  CHECK(policy.wait() == 0);
}

}  // namespace penstock::server
