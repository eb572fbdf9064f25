// Comments of a draft plan: why a unit is sharded as it is, or replicated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "suggest/unit_strategies.h"

namespace tpplan {

// Returns the comment above the rules of a unit. `strategy` is nullptr if the unit is replicated. `reason` is why no
// better strategy applies.
[[nodiscard]] std::string unit_comment(const DraftUnit& unit, const UnitStrategy* strategy, std::string_view reason);

// Wraps a comment into lines.
[[nodiscard]] std::vector<std::string> comment_lines_of(std::string_view text);

// Returns why a strategy cannot be verified for a unit without operations; empty if it can. Reasons are a norm over all
// heads, a parameter of unknown use, or a missing output projection.
[[nodiscard]] std::string unverifiable_reason(const ModelGraph& graph, const DraftUnit& unit,
                                              const UnitStrategy& strategy);

}  // namespace tpplan
