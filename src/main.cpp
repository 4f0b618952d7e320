// The command line: flags, configuration, build the server, run it.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "penstock/config/config.h"
#include "penstock/log/log.h"
#include "penstock/server/server.h"

namespace {

struct Options {
  std::string file;
  std::vector<std::string> overrides;
  bool check_config = false;
  bool print_config = false;
  bool print_reference = false;
};

int run(const Options& options) {
  const penstock::config::Config config =
      penstock::config::load(options.file, options.overrides);
  if (options.print_config) {
    std::fputs(penstock::config::print(config).c_str(), stdout);
    return 0;
  }
  if (options.check_config) {
    std::puts("the configuration is good");
    return 0;
  }
  penstock::server::block_signals();  // before any thread: each inherits what is blocked
  penstock::log::start(config.log.level, config.log.file);
  int status = 0;
  {
    penstock::server::Server server(config);
    status = server.run();
  }
  penstock::log::stop();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Penstock, a proxy that makes a Redis or Valkey cluster look like one big Redis");
  Options options;
  app.add_option("-c,--config", options.file, "Read this TOML file")->type_name("FILE");
  app.add_option("--set", options.overrides,
                 "Override one key of the file, such as io.engine=epoll")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--check-config", options.check_config, "Check the configuration and exit");
  app.add_flag("--print-config", options.print_config, "Print every key with its value and exit");
  app.add_flag("--print-reference", options.print_reference,
               "Print the reference of all keys as Markdown and exit");
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION);
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.print_reference) {
      std::fputs(penstock::config::print_reference().c_str(), stdout);
      return 0;
    }
    return run(options);
  } catch (const std::exception& error) {
    penstock::log::stop();
    std::fprintf(stderr, "penstock: %s\n", error.what());
    return 1;
  }
}
