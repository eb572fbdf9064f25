// A read plan as text: what `tpplan-exec load --print reads` shows and the golden tests hold.
#pragma once

#include <string>

#include "shards/plan_reads.h"

namespace tpplan {

// The bytes needed and planned, then of each cell a line of its file, place and tensor, and one of each segment with
// the ranks and places that it goes to.
[[nodiscard]] std::string print_reads(const ReadPlan& plan, const WeightSource& source);

}  // namespace tpplan
