// Configuration files, overrides and their error lines.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/config/config.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "catch.h"
#include "config/schema.h"
#include "config/units.h"

namespace penstock::config {
namespace {

using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

// A file that lives as long as the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    path_ = "/tmp/penstock-config-test-" + std::to_string(getpid()) + ".toml";
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TemporaryFile file(text);
  try {
    load(file.path(), overrides);
    return "(no error)";
  } catch (const ConfigError& error) {
    std::string line = error.what();
    const std::size_t at = line.find(file.path());
    return at == std::string::npos ? line : line.replace(at, file.path().size(), "FILE");
  }
}

}  // namespace

TEST_CASE("a file and overrides set what they name") {
  const TemporaryFile file("[server]\nlisten = [\"[::1]:1\", \"unix:/tmp/x\"]\nworkers = 3\n"
                           "[io]\nengine = \"epoll\"\n[cluster]\nrefresh_interval = \"2s\"\n");
  const Config config = load(file.path(), {"limits.client_query=2mb", "server.workers=4",
                                           "cluster.password=1234", "server.pin_workers=false",
                                           "cluster.seeds=[\"a:1\",\"b:2\"]"});
  CHECK(config.server.listen.size() == 2);
  CHECK(config.server.workers == 4);
  CHECK(config.io.engine == Engine::epoll);
  CHECK(config.cluster.refresh_interval == std::chrono::seconds(2));
  CHECK(config.limits.client_query == 2 << 20);
  CHECK(config.cluster.password == "1234");
  CHECK_FALSE(config.server.pin_workers);
  CHECK(config.cluster.seeds.size() == 2);
}

TEST_CASE("a mistake is one line with file, line, key and what is allowed") {
  CHECK(error_of("[server]\nworker = 1\n") ==
        "FILE:2: server.worker: unknown key; did you mean server.workers?");
  CHECK(error_of("[server]\n\nworkers = 1000\n") ==
        "FILE:3: server.workers: must be a whole number from 0 to 256");
  CHECK(error_of("[server]\nworkers = \"two\"\n") ==
        "FILE:2: server.workers: must be a whole number from 0 to 256");
  CHECK(error_of("[io]\nengine = \"kqueue\"\n") ==
        "FILE:2: io.engine: must be one of \"auto\" \"io_uring\" \"epoll\"");
  CHECK(error_of("[backend]\nclient_name = \"a b\"\n") ==
        "FILE:2: backend.client_name: must be printable ASCII without spaces, or an empty text");
  CHECK(error_of("[server]\nannounce = \"proxy\"\n") ==
        "FILE:2: server.announce: must be \"host:port\" or \"[ipv6]:port\" (ports 1 to 65535), "
        "or an empty text");
  CHECK_THAT(error_of("[backend]\nrequest_timeout = \"5\"\n"),
             StartsWith("FILE:2: backend.request_timeout: must be a duration with a unit"));
  CHECK_THAT(error_of("[reply_cache]\nprefixes = [\"user:\", \"user:a\"]\n"),
             StartsWith("reply_cache.prefixes: \"user:a\" begins with \"user:\""));
  CHECK_THAT(error_of("[server\n"), StartsWith("FILE:1: "));
}

TEST_CASE("a key or a section that does not exist is met with those that do") {
  CHECK(error_of("[log]\nnosuch_key = 1\n") ==
        "FILE:2: log.nosuch_key: unknown key; allowed in this section: level, file");
  const std::string sections =
      "allowed sections: server, io, cluster, backend, reply_cache, limits, log";
  CHECK(error_of("[nosuch]\nx = 1\n") == "FILE:2: nosuch.x: unknown key; " + sections);
  CHECK(error_of("\n[nosuch]\n") == "FILE:2: nosuch: unknown section; " + sections);
  CHECK(error_of("\ntop = 1\n") ==
        "FILE:2: top: must be in a section, such as [server]; " + sections);
  CHECK(error_of("server = 1\n") == "FILE:1: server: must be a section: [server]");
  CHECK(error_of("[[server]]\nworkers = 1\n") == "FILE:1: server: must be a section: [server]");
  CHECK(error_of("[io]\n[server.workers]\nx = 1\n") ==
        "FILE:2: server.workers: must be a whole number from 0 to 256");
}

TEST_CASE("a value that is no TOML is met with the key and what is allowed too") {
  const auto is_met = [](const std::string& text, const std::string& place_and_key,
                         const std::string& allowed) {
    const std::string error = error_of(text);
    CHECK_THAT(error, StartsWith(place_and_key + ": Error while"));
    CHECK(error.find("; must be " + allowed) != std::string::npos);
  };
  is_met("[server]\nworkers = 1\n\n[log] # here\n  level = info\n", "FILE:5: log.level",
         "one of \"trace\"");
  is_met("[backend]\nrequest_timeout=30s\n", "FILE:2: backend.request_timeout", "a duration");
  is_met("[server]\nworkers = 99999999999999999999\n", "FILE:2: server.workers", "a whole number");
  is_met("[server]\nworkers =\n", "FILE:2: server.workers", "a whole number");
  // The list is what is wrong here, not the number of workers.
  CHECK_THAT(error_of("[server]\nlisten = [\"a:1\"\nworkers = 1\n"),
             StartsWith("FILE:3: Error while parsing array"));
  CHECK_THAT(error_of("= 1\n"), StartsWith("FILE:1: Error while"));
}

TEST_CASE("a key that is set twice is found where it is set again") {
  const std::string error = error_of("[server]\nworkers = 1\nworkers = 2\n");
  CHECK_THAT(error, StartsWith("FILE:3: server.workers: Error while"));
  CHECK(error.find("redefine") != std::string::npos);
}

TEST_CASE("a wrong element of a list is named with its own line") {
  const std::string seeds = "cluster.seeds: must be a list of \"host:port\" or \"[ipv6]:port\" "
                            "(ports 1 to 65535)";
  CHECK(error_of("[cluster]\nseeds = [\n  \"10.0.0.1:7000\",\n  \"10.0.0.2\",\n]\n") ==
        "FILE:4: " + seeds + ", not \"10.0.0.2\"");
  CHECK(error_of("[cluster]\nseeds = [\"10.0.0.1:7000\",\n7000]\n") == "FILE:3: " + seeds);
  CHECK(error_of("[cluster]\nseeds = []\n") == "FILE:2: " + seeds);
  CHECK(error_of("[cluster]\nseeds = \"10.0.0.1:7000\"\n") == "FILE:2: " + seeds);
  CHECK(error_of("", {"cluster.seeds=[\"::1\"]"}) == "--set: " + seeds + ", not \"::1\"");
}

TEST_CASE("a mistake in an override names the override in place of file and line") {
  CHECK(error_of("", {"io.engine=none"}) ==
        "--set: io.engine: must be one of \"auto\" \"io_uring\" \"epoll\"");
  CHECK(error_of("", {"server.wrokers=1"}) ==
        "--set: server.wrokers: unknown key; did you mean server.workers?");
  CHECK(error_of("", {"nonsense"}) == "--set: nonsense: must be key=value");
  CHECK_THAT(error_of("", {"=1"}), StartsWith("--set: : unknown key"));
  CHECK(error_of("", {"server.workers=99999999999999999999"}) ==
        "--set: server.workers: must be a whole number from 0 to 256");
  CHECK_THAT(error_of("", {"server.listen=[\"nope\"]"}),
             StartsWith("--set: server.listen: must be a list of"));
}

TEST_CASE("an override that is no TOML, or TOML of another type, is a text") {
  const Config config = load("", {"log.file=/tmp/a b", "cluster.username=[x]",
                                  "server.password=true", "cluster.password=",
                                  "backend.client_name=1"});
  CHECK(config.log.file == "/tmp/a b");
  CHECK(config.cluster.username == "[x]");
  CHECK(config.server.password == "true");
  CHECK(config.cluster.password.empty());
  CHECK(config.backend.client_name == "1");
}

TEST_CASE("the error is one line whatever the file has for names") {
  CHECK(error_of("[log]\n\"a\\nb\" = 1\n") ==
        "FILE:2: log.a?b: unknown key; allowed in this section: level, file");
  CHECK_THAT(error_of("[cluster]\nseeds = [\"a\\nb\"]\n"), EndsWith(", not \"a?b\""));
  CHECK(error_of("", {"a\nb"}) == "--set: a?b: must be key=value");
}

TEST_CASE("a file that cannot be read is one line too") {
  CHECK_THROWS_WITH(load("/nonexistent/penstock.toml", {}),
                    "/nonexistent/penstock.toml: cannot be read: No such file or directory");
  CHECK_THROWS_WITH(load("/tmp", {}), "/tmp: cannot be read: Is a directory");
}

TEST_CASE("a file longer than one read is read to its end") {
  const TemporaryFile file("#" + std::string(20'000, 'x') + "\n[server]\nworkers = 3\n");
  CHECK(load(file.path(), {}).server.workers == 3);
  CHECK(load("/dev/null", {}).server.workers == 0);
}

TEST_CASE("the bounds that other parts rely on are kept") {
  // A reply token has ten bits for its worker.
  CHECK_THAT(error_of("[server]\nworkers = 1024\n"), StartsWith("FILE:2: server.workers: "));
  // One receive brings up to 64 KiB.
  CHECK_THAT(error_of("[limits]\nclient_query = \"65535b\"\n"),
             StartsWith("FILE:2: limits.client_query: must be a size with a unit (b, kb, mb, gb) "
                        "from \"64kb\""));
  CHECK(load("", {"limits.client_query=64kb"}).limits.client_query == 64 << 10);
}

TEST_CASE("every default is allowed") {
  for (const Key& key : schema()) {
    CAPTURE(key.name);
    Config config;
    const toml::table table = toml::parse("value = " + key.print(config));
    CHECK(key.read(config, *table.get("value")) == nullptr);
    CHECK(key.print(config) == key.print(Config{}));
  }
}

TEST_CASE("what is printed can be read back") {
  Config config;
  config.server.workers = 7;
  config.cluster.username = "with \"quotes\", \\, \t, \n, \x7f and \u00e9";
  config.log.file = std::string("zero \0 inside", 13);
  const TemporaryFile file(print(config));
  const Config again = load(file.path(), {});
  CHECK(again.server.workers == 7);
  CHECK(again.cluster.username == config.cluster.username);
  CHECK(again.log.file == config.log.file);
  CHECK(print(again) == print(config));
}

TEST_CASE("passwords are not shown") {
  Config config;
  config.server.password = "hunter2";
  config.cluster.password = "hunter2";
  CHECK(print(config).find("hunter2") == std::string::npos);
  for (const auto& [name, value] : values(config)) {
    CHECK(name.find("password") == std::string::npos);
  }
}

TEST_CASE("durations and sizes carry units") {
  CHECK(parse_duration("50us") == Duration(50));
  CHECK(parse_duration("2m") == std::chrono::minutes(2));
  CHECK_FALSE(parse_duration("5").has_value());
  CHECK_FALSE(parse_duration("-5s").has_value());
  CHECK_FALSE(parse_duration("99999999999999999h").has_value());
  CHECK(print_duration(std::chrono::milliseconds(1500)) == "1500ms");
  CHECK(parse_size("64mb") == 64ULL << 20);
  CHECK_FALSE(parse_size("64").has_value());
  CHECK(print_size(3 << 20) == "3mb");
  CHECK(print_size(0) == "0b");
}

TEST_CASE("the reference has a title, an introduction and a row for every key") {
  const std::string reference = print_reference();
  CHECK_THAT(reference, StartsWith("# Configuration\n\nThe keys of the TOML file"));
  CHECK(reference.find("--set") < reference.find("\n## [server]\n"));
  for (const Key& key : schema()) {
    CAPTURE(key.name);
    const std::string row = "| `" + key.name.substr(key.name.find('.') + 1) + "` | `" +
                            key.print(Config{}) + "` | " + key.allowed + " | " + key.comment;
    CHECK(reference.find(row) != std::string::npos);
  }
}

TEST_CASE("the printed configuration has no line over 100 characters") {
  std::istringstream lines(print(Config{}));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

}  // namespace penstock::config
