// What goes wrong on the way: kept as causes, and reported where they reach a result or a gradient.
#pragma once

#include <string>

#include "walk/walk_state.h"

namespace tpplan {

[[nodiscard]] uint32_t add_cause(Walk& walk, Cause cause);
// In the module that the walk is in.
[[nodiscard]] uint32_t add_cause_here(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner,
                                      std::string op);
// The run ends here; the first time counts.
void crash_at(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner = kNoRule, std::string op = {});
// Marks what a step made as wrong, if it was right before. The walk goes on: a later crash outranks a wrong value.
void spoil(Walk& walk, SlotId slot, Code code, std::string reason, RuleId rule, RuleId partner, std::string op);

// For messages: "the rule" where none has a style.
[[nodiscard]] std::string style_name(const Walk& walk, RuleId rule);

}  // namespace tpplan
