// Prints a schedule, for `tpplan-exec run --print schedule` and the golden tests.
#pragma once

#include <span>
#include <string>

#include "exec/run/schedule.h"

namespace tpplan {

// Returns for each entry a line with part, paths, count and tensor, and a line for each step with its layouts.
[[nodiscard]] std::string print_schedule(std::span<const ScheduleEntry> schedule, const Mesh& mesh);

}  // namespace tpplan
