#include "trace.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>

namespace tpplan {
namespace {

const auto kStart = std::chrono::steady_clock::now();

}  // namespace

void trace(bool verbose, std::string_view step, std::string_view text) {
  if (!verbose) return;
  static const auto log = [] {
    auto logger = spdlog::stderr_logger_mt("tpplan");
    logger->set_pattern("tpplan: %v");
    return logger;
  }();
  const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now() - kStart;
  log->info("{:8.2f} ms  {}: {}", since.count(), step, text);
}

}  // namespace tpplan
