// Configuration files, overrides and their error lines.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/config/config.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "catch.h"
#include "config/units.h"

namespace penstock::config {
namespace {

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
  CHECK(error_of("[backend]\nrequest_timeout = \"5\"\n").find("a duration with a unit") !=
        std::string::npos);
  CHECK(error_of("[nosuch]\nx = 1\n").find("unknown key") != std::string::npos);
  CHECK(error_of("top = 1\n").find("must be in a section") != std::string::npos);
  CHECK(error_of("[server\n").find("FILE:1: ") == 0);
  CHECK(error_of("", {"io.engine=none"}).find("--set: io.engine: must be one of") == 0);
  CHECK(error_of("", {"nonsense"}) == "--set: nonsense: must be key=value");
  CHECK(error_of("", {"server.listen=[\"nope\"]"}).find("server.listen") != std::string::npos);
  CHECK(error_of("[reply_cache]\nenabled = true\n").find("not supported yet") !=
        std::string::npos);
}

TEST_CASE("a file that is not there is one line too") {
  CHECK_THROWS_WITH(load("/nonexistent/penstock.toml", {}),
                    "/nonexistent/penstock.toml: cannot be read");
}

TEST_CASE("what is printed can be read back") {
  Config config;
  config.server.workers = 7;
  config.cluster.username = "with \"quotes\" and \\";
  const TemporaryFile file(print(config));
  const Config again = load(file.path(), {});
  CHECK(again.server.workers == 7);
  CHECK(again.cluster.username == config.cluster.username);
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

}  // namespace penstock::config
