// Makes an io_uring.
// SPDX-License-Identifier: Apache-2.0
#include "net/uring_setup.h"

#include <cerrno>
#include <system_error>

namespace penstock::net {
namespace {

constexpr unsigned kAlways = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL;

// The order matters: with DEFER_TASKRUN completions wait until we ask, with COOP_TASKRUN at least
// until the next system call. A plain ring interrupts the worker: twice the CPU.
constexpr unsigned kLadder[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
                                IORING_SETUP_COOP_TASKRUN};

constexpr unsigned kNeeded = IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE |
                             IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG;

// With a small RLIMIT_MEMLOCK only a smaller ring can be had. 0, or an error number.
int try_flags(io_uring& ring, const ReactorOptions& options, unsigned flags) {
  int error = 0;
  for (unsigned cq = options.completion_entries; cq >= options.submission_entries; cq /= 2) {
    io_uring_params params{};
    params.flags = kAlways | flags;
    params.cq_entries = cq;
    error = -io_uring_queue_init_params(options.submission_entries, &ring, &params);
    if (error != ENOMEM) break;
  }
  return error;
}

}  // namespace

void set_up_ring(io_uring& ring, const ReactorOptions& options) {
  int error = 0;
  for (const unsigned flags : kLadder) {
    error = try_flags(ring, options, flags);
    if (error != EINVAL) break;
  }
  if (error > 0) throw std::system_error(error, std::generic_category(), "io_uring_setup");
  if ((ring.features & kNeeded) == kNeeded) return;
  io_uring_queue_exit(&ring);
  throw std::system_error(ENOSYS, std::generic_category(), "io_uring features");
}

}  // namespace penstock::net
