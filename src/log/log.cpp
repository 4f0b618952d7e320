// The process's log: a spdlog queue and one thread that writes it.
// SPDX-License-Identifier: Apache-2.0
#include "penstock/log/log.h"

#include <spdlog/async.h>
#include <spdlog/details/file_helper.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "penstock/log/check.h"

namespace penstock {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "penstock: CHECK failed: %s at %s:%d\n", condition, file, line);
  spdlog::critical("CHECK failed: {} at {}:{}", condition, file, line);
  log::stop();
  std::abort();
}

namespace log {
namespace {

constexpr std::size_t kQueueMessages = 8192;   // about 2 MB; when full the oldest message goes
constexpr std::uint64_t kBurstMessages = 5;    // of one cause per window
constexpr std::int64_t kWindowMs = 10'000;

// A file that is opened again when asked to, between two messages.
class ReopeningFileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ReopeningFileSink(const std::string& path) { file_.open(path); }
  void request_reopen() { reopen_ = true; }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (reopen_.exchange(false)) file_.reopen(false);
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    file_.write(line);
    file_.flush();
  }
  void flush_() override { file_.flush(); }

 private:
  spdlog::details::file_helper file_;
  std::atomic<bool> reopen_{false};
};

std::shared_ptr<ReopeningFileSink>& file_sink() {
  static std::shared_ptr<ReopeningFileSink> sink;
  return sink;
}

std::int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void start(const std::string& level, const std::string& file) {
  spdlog::sink_ptr sink;
  if (file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    file_sink() = std::make_shared<ReopeningFileSink>(file);
    sink = file_sink();
  }
  spdlog::init_thread_pool(kQueueMessages, 1);
  auto logger = std::make_shared<spdlog::async_logger>(
      "penstock", sink, spdlog::thread_pool(), spdlog::async_overflow_policy::overrun_oldest);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %v");
  logger->set_level(spdlog::level::from_str(level));
  // A full disk or a closed terminal must not become a second problem.
  logger->set_error_handler([](const std::string&) {});
  spdlog::set_default_logger(logger);
}

void reopen() {
  if (file_sink()) file_sink()->request_reopen();
}

void stop() { spdlog::shutdown(); }

bool Limiter::allow(std::uint64_t& suppressed) {
  const std::int64_t now = now_ms();
  std::int64_t began = window_start_.load(std::memory_order_relaxed);
  if (now - began >= kWindowMs && window_start_.compare_exchange_strong(began, now)) {
    in_window_.store(0, std::memory_order_relaxed);
  }
  if (in_window_.fetch_add(1, std::memory_order_relaxed) >= kBurstMessages) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  suppressed = suppressed_.exchange(0, std::memory_order_relaxed);
  return true;
}

}  // namespace log
}  // namespace penstock
