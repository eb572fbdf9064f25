#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "commands.h"

namespace tpplan {

int cmd_schema(const std::string& kind) {
  const char* schema = embedded_schema(kind);
  if (schema == nullptr)
    return usage_error(fmt::format(
        "there is no schema `{}`: kinds are model, plan, manifest, diagnostics, diff, suggestion, settings, "
        "baseline, topology, run, program, propagation and search",
        escape_for_terminal(kind)));
  return print_raw(STDOUT_FILENO, schema) ? kExitFine : kExitUsage;
}

}  // namespace tpplan
