// Reply frames of every kind at every split point, streamed in pieces, and hostile ones.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/reply_scanner.h"

#include <string>

#include "catch.h"
#include "exact_buffer.h"

namespace penstock::resp {
namespace {

const std::string kFrames[] = {
    "+OK\r\n", "+\r\n", "+QUEUED\r\n", "-ERR no\r\n", ":12\r\n", ":-1\r\n", "$-1\r\n", "*-1\r\n",
    "_\r\n", "$0\r\n\r\n", "$3\r\nfoo\r\n", "$12\r\nhello\r\nworld\r\n", "*0\r\n", "%0\r\n",
    "*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n*1\r\n+a\r\n*0\r\n", "#t\r\n", ",1.5\r\n", ",inf\r\n",
    "(3492890328409238509324850943850943825024385\r\n", "=6\r\ntxt:ab\r\n", "!5\r\nERR x\r\n",
    "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", "~2\r\n:1\r\n:2\r\n", ">2\r\n+message\r\n+x\r\n",
    "|1\r\n+key\r\n,0.1\r\n*1\r\n|1\r\n+a\r\n+b\r\n:7\r\n",
    "$300\r\n" + std::string(300, 'x') + "\r\n",
    "$10000\r\n" + std::string(10000, 'y') + "\r\n"};

}  // namespace

TEST_CASE("a reply is found whole wherever its bytes are split") {
  for (const std::string& frame : kFrames) {
    const std::size_t step = frame.size() > 1000 ? 97 : 1;
    for (std::size_t split = 0; split < frame.size(); split += step) {
      ReplyScanner scanner;
      const ExactBuffer first(std::string_view(frame).substr(0, split));
      REQUIRE(scanner.scan(first.view()) == ScanStatus::incomplete);
      REQUIRE(split + scanner.missing(split) <= frame.size());
      const ExactBuffer whole(frame);
      REQUIRE(scanner.scan(whole.view()) == ScanStatus::complete);
      REQUIRE(scanner.frame_size() == frame.size());
    }
  }
}

TEST_CASE("bytes behind a reply are left alone") {
  for (const std::string& frame : kFrames) {
    ReplyScanner scanner;
    REQUIRE(scanner.scan(frame + "$3\r\nabc\r\n") == ScanStatus::complete);
    REQUIRE(scanner.frame_size() == frame.size());
  }
}

TEST_CASE("a reply can be passed on in pieces and still ends where it ends") {
  for (const std::string& frame : kFrames) {
    ReplyScanner scanner;
    std::string passed, held;
    bool complete = false;
    for (std::size_t at = 0; at < frame.size(); ++at) {
      held += frame[at];
      const ExactBuffer buffer(held);
      const ScanStatus status = scanner.scan(buffer.view());
      if (status == ScanStatus::complete) {
        passed += held.substr(0, scanner.frame_size());
        complete = true;
        break;
      }
      REQUIRE(status == ScanStatus::incomplete);
      const std::size_t settled = scanner.settled(held.size());
      passed += held.substr(0, settled);
      scanner.release(settled);
      held.erase(0, settled);
    }
    REQUIRE(complete);
    REQUIRE(passed == frame);
  }
}

TEST_CASE("what is no reply is an error, not a crash") {
  for (const char* text : {"$abc\r\n", "*-2\r\n", "$-2\r\n", "x\r\n", "$5\rx", "*1\r\n?\r\n",
                           "$99999999999999999999\r\n", "*9999999999999\r\n", "+a\rb"}) {
    ReplyScanner scanner;
    CHECK(scanner.scan(text) == ScanStatus::error);
  }
}

TEST_CASE("deep nesting needs no stack") {
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += "*1\r\n";
  ReplyScanner scanner;
  CHECK(scanner.scan(deep) == ScanStatus::incomplete);
  CHECK(scanner.scan(deep + ":1\r\n") == ScanStatus::complete);
}

TEST_CASE("arrays of arrays cannot overflow the count") {
  std::string bomb;
  for (int i = 0; i < 10; ++i) bomb += "*1099511627776\r\n";
  ReplyScanner scanner;
  CHECK(scanner.scan(bomb) == ScanStatus::error);
}

}  // namespace penstock::resp
