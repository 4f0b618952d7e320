// Replies in one piece, in growing pieces and streamed: they end where they end, every time.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/reply_scanner.h"

#include <string>
#include <vector>

#include "exact_buffer.h"
#include "mutate.h"
#include "penstock/resp/reply_value.h"
#include "require.h"
#include "resp_grammar.h"
#include "split_input.h"

namespace penstock::fuzz {
namespace {

using resp::ReplyScanner;
using resp::ScanStatus;

struct Outcome {
  std::vector<std::string> frames;
  bool failed = false;

  bool operator==(const Outcome&) const = default;
};

// Keeps a torn frame until it is whole.
class Collector {
 public:
  // False after an error.
  bool feed(std::string_view piece) {
    held_ += piece;
    while (!held_.empty()) {
      const ExactBuffer buffer(held_);
      const ScanStatus status = scanner_.scan(buffer.view());
      if (status == ScanStatus::error) {
        outcome_.failed = true;
        return false;
      }
      if (status == ScanStatus::incomplete) {
        REQUIRE(scanner_.settled(held_.size()) <= held_.size());
        least_ = held_.size() + scanner_.missing(held_.size());
        return true;
      }
      const std::size_t size = scanner_.frame_size();
      REQUIRE(size >= 1 && size <= held_.size() && size >= least_);
      outcome_.frames.push_back(held_.substr(0, size));
      held_.erase(0, size);
      least_ = 0;
      scanner_.reset();
    }
    return true;
  }

  const Outcome& outcome() const { return outcome_; }

 private:
  ReplyScanner scanner_;
  std::string held_;
  std::size_t least_ = 0;  // no frame may be complete with fewer bytes: `missing` said so
  Outcome outcome_;
};

// Passes on what is settled of a torn frame, and keeps only the rest.
class Streamer {
 public:
  bool feed(std::string_view piece) {
    held_ += piece;
    while (!held_.empty()) {
      const ExactBuffer buffer(held_);
      const ScanStatus status = scanner_.scan(buffer.view());
      if (status == ScanStatus::error) {
        outcome_.failed = true;
        return false;
      }
      const bool complete = status == ScanStatus::complete;
      const std::size_t size =
          complete ? scanner_.frame_size() : scanner_.settled(held_.size());
      REQUIRE(size <= held_.size());
      passed_ += held_.substr(0, size);
      held_.erase(0, size);
      if (!complete) {
        scanner_.release(size);
        return true;
      }
      outcome_.frames.push_back(std::move(passed_));
      passed_.clear();
      scanner_.reset();
    }
    return true;
  }

  const Outcome& outcome() const { return outcome_; }

 private:
  ReplyScanner scanner_;
  std::string held_, passed_;
  Outcome outcome_;
};

// The short way and the tree parser must agree with the scanner.
void check_first_frame(std::string_view stream) {
  const ExactBuffer buffer(stream);
  ReplyScanner scanner;
  const ScanStatus status = scanner.scan(buffer.view());
  const std::size_t size = resp::short_reply_size(buffer.view());
  if (size > 0) REQUIRE(status == ScanStatus::complete && scanner.frame_size() == size);
  // A lone CR in a line is an error to the scanner and a part of the text to the parser.
  if (status == ScanStatus::complete && resp::parse_reply(buffer.view())) {
    REQUIRE(scanner.frame_size() == stream.size());
  }
}

void run(const SplitInput& input) {
  const std::string_view stream = input.stream();
  check_first_frame(stream);
  Collector whole, pieces;
  Streamer streamed;
  whole.feed(stream);
  bool going = true, streaming = true;
  std::size_t index = 0;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = input.end_of_piece(at, index++);
    going = going && pieces.feed(stream.substr(at, end - at));
    streaming = streaming && streamed.feed(stream.substr(at, end - at));
    at = end;
  }
  REQUIRE(whole.outcome() == pieces.outcome());
  REQUIRE(whole.outcome() == streamed.outcome());
  for (const std::string& frame : whole.outcome().frames) check_first_frame(frame);
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const penstock::fuzz::SplitInput input(data, size);
  if (input.is_whole()) penstock::fuzz::run(input);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return penstock::fuzz::mutate(
      data, size, max_size, seed, penstock::fuzz::SplitInput::kHeaderBytes,
      [](penstock::fuzz::Random& random) { return penstock::fuzz::random_reply(random); });
}
