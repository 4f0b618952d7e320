// Request frames at every split point, the server's limits and error texts, inline commands.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/resp/request_scanner.h"

#include <string>
#include <vector>

#include "catch.h"
#include "exact_buffer.h"

namespace penstock::resp {
namespace {

using Words = std::vector<std::string>;

Words words_of(const Request& request) {
  Words words;
  for (std::size_t i = 0; i < request.size(); ++i) words.emplace_back(request[i]);
  return words;
}

std::string frame_of(const Words& words) {
  std::string out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    out += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return out;
}

// Scans a frame that arrives in two parts, each in a buffer of its exact size.
ScanStatus scan_in_two(RequestScanner& scanner, const std::string& frame, std::size_t split,
                       Words& words) {
  const ExactBuffer first(std::string_view(frame).substr(0, split));
  const ScanStatus early = scanner.scan(first.view(), {});
  if (early != ScanStatus::incomplete) return early;
  const ExactBuffer whole(frame);
  const ScanStatus status = scanner.scan(whole.view(), {});
  if (status == ScanStatus::complete) words = words_of(scanner.request(whole.view()));
  return status;
}

std::string error_of(std::string_view bytes, RequestLimits limits = {}) {
  RequestScanner scanner;
  if (scanner.scan(bytes, limits) != ScanStatus::error) return "(no error)";
  return scanner.error();
}

Words inline_words(std::string_view line) {
  RequestScanner scanner;
  const ExactBuffer buffer(line);
  if (scanner.scan(buffer.view(), {}) != ScanStatus::complete) return {"(not complete)"};
  return words_of(scanner.request(buffer.view()));
}

}  // namespace

TEST_CASE("a request is found whole wherever its bytes are split") {
  const Words samples[] = {{"GET", "key"},
                           {"SET", "key", std::string(300, 'x')},
                           {"SET", "", ""},
                           {"HSET", "k", "a\r\nb", std::string("\0$5\r\n*2\r\n", 10)},
                           {"PING"}};
  for (const Words& sample : samples) {
    const std::string frame = frame_of(sample);
    for (std::size_t split = 0; split < frame.size(); ++split) {
      RequestScanner scanner;
      Words words;
      REQUIRE(scan_in_two(scanner, frame, split, words) == ScanStatus::complete);
      REQUIRE(words == sample);
      REQUIRE(scanner.frame_size() == frame.size());
    }
  }
}

TEST_CASE("a request that arrives byte by byte never needs more than it says") {
  const std::string frame = frame_of({"SET", "some-key", std::string(100, 'v')});
  RequestScanner scanner;
  for (std::size_t size = 0; size < frame.size();) {
    const ExactBuffer buffer(std::string_view(frame).substr(0, size));
    REQUIRE(scanner.scan(buffer.view(), {}) == ScanStatus::incomplete);
    REQUIRE(scanner.needed() >= 1);
    REQUIRE(size + scanner.needed() <= frame.size());
    size += 1;
  }
}

TEST_CASE("bytes behind a frame are left alone") {
  const std::string two = frame_of({"GET", "a"}) + frame_of({"GET", "b"});
  RequestScanner scanner;
  REQUIRE(scanner.scan(two, {}) == ScanStatus::complete);
  CHECK(scanner.frame_size() == two.size() / 2);
  CHECK(scanner.request(two).frame() == frame_of({"GET", "a"}));
}

TEST_CASE("an empty request is complete and has no arguments") {
  for (const char* text : {"*0\r\n", "*-1\r\n", "\r\n", "\n", "   \r\n"}) {
    RequestScanner scanner;
    REQUIRE(scanner.scan(text, {}) == ScanStatus::complete);
    CHECK(scanner.request(text).empty());
    CHECK(scanner.frame_size() == std::string_view(text).size());
  }
}

TEST_CASE("malformed requests get the server's own words") {
  CHECK(error_of("*2147483648\r\n") == "invalid multibulk length");
  CHECK(error_of("*abc\r\n") == "invalid multibulk length");
  CHECK(error_of("*01\r\n$4\r\nPING\r\n") == "invalid multibulk length");
  CHECK(error_of("*+1\r\n$4\r\nPING\r\n") == "invalid multibulk length");
  CHECK(error_of("*1\r\n$-1\r\n") == "invalid bulk length");
  CHECK(error_of("*1\r\n$2147483645\r\n") == "invalid bulk length");
  CHECK(error_of("*1\r\n$629145600\r\n") == "invalid bulk length");
  CHECK(error_of("*1\r\n$x\r\n") == "invalid bulk length");
  CHECK(error_of("*1\r\n:3\r\n") == "expected '$', got ':'");
  CHECK(error_of("*" + std::string(70000, '1')) == "too big mbulk count string");
  CHECK(error_of("*1\r\n$" + std::string(70000, '1')) == "too big bulk count string");
  CHECK(error_of(std::string(70000, 'x')) == "too big inline request");
  CHECK(error_of("SET \"a\r\n") == "unbalanced quotes in request");
}

TEST_CASE("a million announced arguments are waited for without memory") {
  RequestScanner scanner;
  CHECK(scanner.scan("*1048577\r\n", {}) == ScanStatus::incomplete);
  CHECK(scanner.scan("*1048577\r\n$", {}) == ScanStatus::incomplete);
}

TEST_CASE("before AUTH the server's low limits hold") {
  const RequestLimits limits{.before_auth = true};
  CHECK(error_of("*11\r\n", limits) == "unauthenticated multibulk length");
  CHECK(error_of("*1\r\n$16385\r\n", limits) == "unauthenticated bulk length");
  CHECK(error_of("*1\r\n$-1\r\n", limits) == "invalid bulk length");
  CHECK(error_of("*10\r\n", limits) == "(no error)");
  CHECK(error_of("*1\r\n$16384\r\n", limits) == "(no error)");
}

TEST_CASE("line ends that the server does not look at are written anew") {
  const std::string odd = "*2\r\n$3\r\nGETxy$1\rzkab";
  RequestScanner scanner;
  REQUIRE(scanner.scan(odd, {}) == ScanStatus::complete);
  const Request request = scanner.request(odd);
  CHECK(words_of(request) == Words{"GET", "k"});
  CHECK(request.frame() == frame_of({"GET", "k"}));
  CHECK(scanner.frame_size() == odd.size());
}

TEST_CASE("inline commands follow the server's quoting rules") {
  CHECK(inline_words("PING\r\n") == Words{"PING"});
  CHECK(inline_words("PING\n") == Words{"PING"});
  CHECK(inline_words("  SET   k\tv  \r\n") == Words{"SET", "k", "v"});
  CHECK(inline_words("SET k \"a b\"\r\n") == Words{"SET", "k", "a b"});
  CHECK(inline_words("SET k 'a \\'b\\''\r\n") == Words{"SET", "k", "a 'b'"});
  CHECK(inline_words("SET k \"\\x41\\n\\\"\\q\"\r\n") == Words{"SET", "k", "A\n\"q"});
  CHECK(inline_words("SET k \"\"\r\n") == Words{"SET", "k", ""});
  CHECK(inline_words("ECHO foo\"bar\"\r\n") == Words{"ECHO", "foobar"});
  CHECK(error_of("ECHO \"a\"b\r\n") == "unbalanced quotes in request");
  CHECK(error_of("ECHO 'a\r\n") == "unbalanced quotes in request");
}

TEST_CASE("an inline command is framed as an array") {
  RequestScanner scanner;
  const std::string line = "SET k \"a b\"\r\n";
  REQUIRE(scanner.scan(line, {}) == ScanStatus::complete);
  CHECK(scanner.request(line).frame() == frame_of({"SET", "k", "a b"}));
}

TEST_CASE("an inline command is found whole wherever it is split") {
  const std::string line = "SET key \"some value\"\r\n";
  for (std::size_t split = 0; split < line.size(); ++split) {
    RequestScanner scanner;
    Words words;
    REQUIRE(scan_in_two(scanner, line, split, words) == ScanStatus::complete);
    REQUIRE(words == Words{"SET", "key", "some value"});
  }
}

}  // namespace penstock::resp
