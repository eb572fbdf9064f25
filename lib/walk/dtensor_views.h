// Views of DTensors: which placements a view lets pass.
#pragma once

#include <optional>
#include <span>

#include "walk/walk_state.h"

namespace tpplan {

[[nodiscard]] bool is_view(std::string_view op);

// Where a cut goes under a view of a tensor of sizes `from` as `to` (torch 2.13, _ops/_view_ops.py, which lets no view
// communicate): to the first dim that its dim becomes, if the ranks divide that; behind other dims that it is merged
// with, to a strided shard. nullopt where torch raises an error.
[[nodiscard]] std::optional<Claim> viewed(const Walk& walk, const Claim& claim, std::span<const int64_t> from,
                                          std::span<const int64_t> to);

}  // namespace tpplan
