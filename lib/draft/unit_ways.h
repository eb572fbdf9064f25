// The ways in which a first plan cuts a unit, best first: a table.
#pragma once

#include <span>
#include <string_view>

#include "draft/find_units.h"

namespace tpplan {

struct RoleStyle {
  DraftRole role = DraftRole::None;
  std::string_view style;  // empty: no rule
};

struct UnitWay {
  UnitKind kind = UnitKind::Whole;
  std::string_view comment;  // what the rules do
  std::span<const RoleStyle> styles;
  bool by_heads = false;              // ranks compute some of the heads
  bool is_best = false;               // nothing better is known
  DraftRole needs = DraftRole::None;  // a unit that lacks it is not cut so
};

[[nodiscard]] std::span<const UnitWay> unit_ways();

[[nodiscard]] bool is_for(const UnitWay& way, const DraftUnit& unit);

// Empty where the way has no rule for the role.
[[nodiscard]] std::string_view style_of(const UnitWay& way, DraftRole role);

}  // namespace tpplan
