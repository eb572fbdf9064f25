// What torch itself asserts of a style's options (torch 2.13, style.py), before any model is seen.
#pragma once

#include <map>
#include <string_view>

#include "diagnostics/diagnostics.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Where a rule writes its options, by their names.
using OptionSpans = std::map<std::string_view, Span>;

// Reports layouts that do not fit each other, the style or its one input and output (TP3015, TP3016, TP3018, TP3002).
void check_rule_options(const PlanRule& rule, const OptionSpans& written, const DialectRow& dialect,
                        Diagnostics& diagnostics);

}  // namespace tpplan
