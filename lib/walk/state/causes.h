// Causes of errors: why a value is wrong or a run fails. A cause is reported when it reaches a result or a gradient.
#pragma once

#include <string>

#include "walk/state/walk_state.h"

namespace tpplan {

[[nodiscard]] uint32_t add_cause(Walk& walk, Cause cause);
// Adds a cause in the current module.
[[nodiscard]] uint32_t add_cause_in_module(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner,
                                           std::string op);
// Ends the run with a cause. Only the first call has an effect.
void crash_at(Walk& walk, Code code, std::string reason, RuleId rule, RuleId partner = kNoRule, std::string op = {});
// Marks the result of a step as wrong, with a cause if it has none. The walk goes on: a later crash takes precedence.
void mark_slot_wrong(Walk& walk, SlotId slot, Code code, std::string reason, RuleId rule, RuleId partner,
                     std::string op);

// Returns a gradient that is wrong from this entry on. Its cause is reported when it reaches a parameter.
[[nodiscard]] Grad wrong_grad(Backward& b, const TapeEntry& entry, Code code, std::string reason, RuleId partner);

// Returns the style's name for messages; "the rule" if the rule has no style.
[[nodiscard]] std::string style_name(const Walk& walk, RuleId rule);

}  // namespace tpplan
