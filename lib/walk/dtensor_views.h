// Views of DTensors: which placements a view lets pass.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "walk/dtensor_run.h"

namespace tpplan {

[[nodiscard]] bool is_view(std::string_view op);

// What becomes of one axis' placement under a view.
struct ViewedPlacement {
  Placement in;   // what the operand is brought to first
  Placement out;  // of the result
};

// Where a cut goes under a view of a tensor of sizes `from` as `to` (torch 2.13, _ops/_view_ops.py, view_groups and
// _ViewShardingPropagator with strict_view). A dim that is merged behind others becomes a strided shard; one that is
// split is cut at the first of its parts. nullopt where torch raises an error, with its reason in `fault`.
[[nodiscard]] std::optional<ViewedPlacement> viewed(const Placement& at, std::span<const int64_t> from,
                                                    std::span<const int64_t> to, int64_t ranks, std::string& fault);

// A view of the first operand.
void run_view(DtensorRun& run);

}  // namespace tpplan
