// Strategies with which a draft plan shards a unit, best first.
#pragma once

#include <span>
#include <string_view>

#include "suggest/find_units.h"

namespace tpplan {

struct RoleStyle {
  DraftRole role = DraftRole::None;
  std::string_view style;  // empty: no rule
};

struct UnitStrategy {
  UnitKind kind = UnitKind::Whole;
  std::string_view comment;  // comment of the plan: the effect of the rules
  std::span<const RoleStyle> styles;
  bool by_heads = false;              // each rank computes some of the heads
  bool is_best = false;               // no better strategy is known
  DraftRole needs = DraftRole::None;  // role that the unit must have; None: any unit
};

[[nodiscard]] std::span<const UnitStrategy> unit_strategies();

[[nodiscard]] bool applies_to_unit(const UnitStrategy& strategy, const DraftUnit& unit);

// Returns the style of a role; empty if the strategy has no rule for it.
[[nodiscard]] std::string_view style_of(const UnitStrategy& strategy, DraftRole role);

}  // namespace tpplan
