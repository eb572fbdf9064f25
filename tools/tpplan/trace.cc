#include "trace.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <chrono>

#include "terminal.h"

namespace tpplan {
namespace {

const auto kStart = std::chrono::steady_clock::now();

}  // namespace

void trace(bool verbose, std::string_view step, std::string_view text) {
  if (!verbose) return;
  const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now() - kStart;
  print(STDERR_FILENO, fmt::format("tpplan: {:8.2f} ms  {}: {}\n", since.count(), step, text));
}

}  // namespace tpplan
