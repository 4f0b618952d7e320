// Requests in one piece and in many: the same frames, arguments and errors, whatever the pieces.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/request_scanner.h"

#include <optional>
#include <string>
#include <vector>

#include "exact_buffer.h"
#include "mutate.h"
#include "penstock/resp/number.h"
#include "require.h"
#include "resp_grammar.h"
#include "split_input.h"

namespace penstock::fuzz {
namespace {

using resp::Argument;
using resp::Request;
using resp::RequestLimits;
using resp::RequestScanner;
using resp::ScanStatus;
using Words = std::vector<std::string>;

// Everything that a session learns from one stream.
struct Outcome {
  std::vector<std::string> frames;  // as they go to a node; empty for an empty request
  std::vector<Words> requests;
  std::size_t consumed = 0;
  std::string error;

  bool operator==(const Outcome&) const = default;
};

Words words_of(const Request& request) {
  Words words;
  for (std::size_t i = 0; i < request.size(); ++i) words.emplace_back(request[i]);
  return words;
}

// A frame read by the letter of the protocol: nothing but what every server takes.
std::optional<Words> read_strictly(std::string_view frame) {
  const auto read_header = [&frame](char type) -> std::optional<std::size_t> {
    const std::size_t end = frame.find("\r\n");
    std::int64_t number = 0;
    if (end == std::string_view::npos || frame[0] != type) return std::nullopt;
    if (!resp::parse_integer(frame.substr(1, end - 1), number) || number < 0) return std::nullopt;
    frame.remove_prefix(end + 2);
    return static_cast<std::size_t>(number);
  };
  const std::optional<std::size_t> count = read_header('*');
  if (!count) return std::nullopt;
  Words words;
  for (std::size_t i = 0; i < *count; ++i) {
    const std::optional<std::size_t> length = read_header('$');
    if (!length || *length + 2 > frame.size()) return std::nullopt;
    if (frame.substr(*length, 2) != "\r\n") return std::nullopt;
    words.emplace_back(frame.substr(0, *length));
    frame.remove_prefix(*length + 2);
  }
  if (!frame.empty()) return std::nullopt;
  return words;
}

void take(Outcome& outcome, const Request& request, std::size_t frame_size) {
  outcome.consumed += frame_size;
  outcome.requests.push_back(words_of(request));
  outcome.frames.emplace_back(request.empty() ? std::string_view() : request.frame());
  if (!request.empty()) REQUIRE(read_strictly(request.frame()) == outcome.requests.back());
}

// The short way for usual requests must agree with the long one.
void check_usual(std::string_view bytes, const RequestLimits& limits) {
  RequestScanner usual;
  const Request request = usual.scan_usual(bytes);
  if (request.empty()) return;
  RequestScanner scanner;
  REQUIRE(scanner.scan(bytes, limits) == ScanStatus::complete);
  REQUIRE(scanner.frame_size() == request.frame().size());
  REQUIRE(scanner.request(bytes).frame() == request.frame());
  REQUIRE(words_of(scanner.request(bytes)) == words_of(request));
}

// As a session does it: `held` starts where the current frame starts, and moves with every piece.
class Feeder {
 public:
  explicit Feeder(const RequestLimits& limits) : limits_(limits) {}

  // False after an error.
  bool feed(std::string_view piece) {
    held_ += piece;
    while (true) {
      const ExactBuffer buffer(held_);
      const ScanStatus status = scanner_.scan(buffer.view(), limits_);
      if (status == ScanStatus::incomplete) {
        REQUIRE(scanner_.needed() >= 1);
        least_ = held_.size() + scanner_.needed();
        return true;
      }
      if (status == ScanStatus::error) {
        outcome_.error = scanner_.error();
        return false;
      }
      const std::size_t size = scanner_.frame_size();
      REQUIRE(size >= 1 && size <= held_.size() && size >= least_);
      take(outcome_, scanner_.request(buffer.view()), size);
      held_.erase(0, size);
      least_ = 0;
      scanner_.reset();
    }
  }

  const Outcome& outcome() const { return outcome_; }

 private:
  RequestLimits limits_;
  RequestScanner scanner_;
  std::string held_;
  std::size_t least_ = 0;  // no frame may be complete with fewer bytes: `needed` said so
  Outcome outcome_;
};

void run(const SplitInput& input) {
  RequestLimits limits;
  limits.before_auth = input.flag(0);
  if (input.flag(1)) limits.bulk_bytes = 64;
  const std::string_view stream = input.stream();
  if (limits.bulk_bytes >= 100 && !limits.before_auth) check_usual(stream, limits);

  Feeder whole(limits), pieces(limits);
  whole.feed(stream);
  std::size_t index = 0;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = input.end_of_piece(at, index++);
    if (!pieces.feed(stream.substr(at, end - at))) break;
    at = end;
  }
  REQUIRE(whole.outcome() == pieces.outcome());
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
  return penstock::fuzz::mutate(data, size, max_size, seed,
                                penstock::fuzz::SplitInput::kHeaderBytes,
                                [](penstock::fuzz::Random& random) {
                                  return penstock::fuzz::below(random, 4) == 0
                                             ? penstock::fuzz::random_inline_line(random)
                                             : penstock::fuzz::random_request(random);
                                });
}
