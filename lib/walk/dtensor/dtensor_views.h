// Views of DTensors: the placements that a view supports.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "walk/dtensor/dtensor_run.h"

namespace tpplan {

// The placement of one axis before and after a view.
struct ViewedPlacement {
  Placement in;   // that the operand is redistributed to first
  Placement out;  // of the result
};

// Returns the placements of a view of a tensor of sizes `from` as `to` (torch 2.13, _ops/_view_ops.py, view_groups and
// _ViewShardingPropagator with strict_view). A sharded dim that is merged into preceding dims becomes a strided shard.
// If a sharded dim is split, its first part is sharded. Returns nullopt with the reason in `fault` if torch raises an
// error.
[[nodiscard]] std::optional<ViewedPlacement> view_placement(const Placement& at, std::span<const int64_t> from,
                                                            std::span<const int64_t> to, int64_t ranks,
                                                            std::string& fault);

// Runs a view of the first operand.
void run_view(DtensorRun& run);

}  // namespace tpplan
