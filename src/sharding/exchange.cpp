// Ways between workers.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/sharding/exchange.h"

#include "sharding/batch_ring.h"

namespace penstock::sharding {

Exchange::Exchange(std::size_t workers) {
  for (std::size_t i = 0; i < workers; ++i) bells_.push_back(std::make_unique<Doorbell>());
  for (std::size_t i = 0; i < workers * workers; ++i) {
    ways_.push_back(std::make_unique<BatchRing>());
  }
}

Exchange::~Exchange() = default;

}  // namespace penstock::sharding
