// The schema of plans beside a plan that is written, where editors look for it: by the line that begins the plan.
#pragma once

#include <string>
#include <string_view>

#include "commands.h"

namespace tpplan {

inline constexpr std::string_view kSchemaName = "plan.schema.json";

// The comment by which editors find the schema, without its `#`.
[[nodiscard]] std::string schema_line();

// Writes the schema beside a plan that was written, and says so; one that is there stays. An exit status.
[[nodiscard]] int write_schema_beside(const std::string& plan, const CommonArguments& common);

}  // namespace tpplan
