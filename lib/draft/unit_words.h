// What is said of a unit: why it is cut as it is, or not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "draft/unit_ways.h"

namespace tpplan {

// The comment above the rules of a unit; `way` is nullptr where it stays whole. `reason`: why not in a better way.
[[nodiscard]] std::string unit_comment(const DraftUnit& unit, const UnitWay* way, std::string_view reason);

// The same as lines of a plan.
[[nodiscard]] std::vector<std::string> comment_lines_of(std::string_view text);

// What without operations nobody sees: that a norm needs all heads, and what parameters of unknown names are for; empty
// where there is nothing.
[[nodiscard]] std::string unseen_fault(const ModelGraph& graph, const DraftUnit& unit, const UnitWay& way);

}  // namespace tpplan
