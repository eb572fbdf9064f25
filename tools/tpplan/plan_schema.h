// Writes the plan schema next to a plan. Editors find it by the first line of the plan.
#pragma once

#include <string>
#include <string_view>

#include "commands.h"

namespace tpplan {

inline constexpr std::string_view kSchemaName = "plan.schema.json";

// Returns the modeline by which editors find the schema, without its `#`.
[[nodiscard]] std::string schema_line();

// Writes the schema next to a plan and reports it. An existing file stays unchanged. Returns an exit status.
[[nodiscard]] int write_schema_next_to(const std::string& plan, const CommonArguments& common);

}  // namespace tpplan
