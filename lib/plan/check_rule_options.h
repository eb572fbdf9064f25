// Checks of a style's options that torch also makes (torch 2.13, style.py) and that need no model.
#pragma once

#include <map>
#include <string_view>

#include "diagnostics/diagnostics.h"
#include "plan/tp_plan.h"

namespace tpplan {

// The spans of a rule's options, by their names.
using OptionSpans = std::map<std::string_view, Span>;

// Reports layouts that contradict each other, the style, or its number of inputs and outputs (TP3015, TP3016, TP3018,
// TP3002).
void check_rule_options(const PlanRule& rule, const OptionSpans& written, const DialectRow& dialect,
                        Diagnostics& diagnostics);

}  // namespace tpplan
