// TpPlan -> plan file. What read_plan reads, this writes: read_plan(write_plan(plan)) is the same plan.
#pragma once

#include <string>
#include <vector>

#include "plan/tp_plan.h"

namespace tpplan {

// Lines of comment without their `#`; an empty one is a line with nothing else.
struct PlanComments {
  std::vector<std::string> header;              // above the plan
  std::vector<std::vector<std::string>> rules;  // above the rule of that number; may end sooner
};

// The plan in the layout of format_plan.h, without what is as a plan has it that does not say it.
// @pre The plan is one that a file can say: rules of whole paths before those of blocks, block by block, each key once
// in its block; texts are UTF-8; styles are of its dialect, and a style without an axis does its work without one.
[[nodiscard]] std::string write_plan(const TpPlan& plan, const PlanComments& comments = {});

// What stands behind a rule's key: `colwise`, `{spec: [tp, null]}`. A style over `default_axis` names no axis.
[[nodiscard]] std::string rule_text(const PlanRule& rule, const Mesh& mesh, AxisId default_axis);

}  // namespace tpplan
