// Prints a read plan, for `tpplan-exec load --print reads` and the golden tests.
#pragma once

#include <string>

#include "exec/shards/plan_reads.h"

namespace tpplan {

// Returns the bytes needed and planned, then for each file range a line with its file, offset and tensor, and for each
// segment a line with its targets.
[[nodiscard]] std::string print_reads(const ReadPlan& plan, const WeightSource& source);

}  // namespace tpplan
