// A schedule as text: what `tpplan-exec run --print schedule` shows and the golden tests hold.
#pragma once

#include <span>
#include <string>

#include "run/schedule.h"

namespace tpplan {

// Of each entry a line of its part, paths, count and tensor, and one of each step from layout to layout.
[[nodiscard]] std::string print_schedule(std::span<const ScheduleEntry> schedule, const Mesh& mesh);

}  // namespace tpplan
