#include "plan_schema.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/path_status.h"
#include "base/text.h"
#include "inputs.h"

namespace tpplan {

std::string schema_line() { return fmt::format("yaml-language-server: $schema={}", kSchemaName); }

int write_schema_next_to(const std::string& plan, const CommonArguments& common) {
  const std::string path = (std::filesystem::path(plan).parent_path() / kSchemaName).string();
  const PathStatus found = lstat_path(path);
  if (found.error != 0) return reject_write(path, std::strerror(found.error));
  if (found.exists) return kExitFine;
  if (!common.quiet) print(STDERR_FILENO, fmt::format("{}: written for editors\n", escape_for_terminal(path)));
  return write_result(path, [](const Sink& sink) { return sink(embedded_schema("plan")); });
}

}  // namespace tpplan
