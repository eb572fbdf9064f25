// Writes a plan file: read_plan(write_plan(plan)) equals plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/tp_plan.h"

namespace tpplan {

// Lines of comments without their `#`; an empty text is a line with only a `#`.
struct PlanComments {
  std::vector<std::string> header;              // above the plan
  std::vector<std::vector<std::string>> rules;  // above the rule of that index; can be shorter than the list of rules
  std::vector<std::string> fsdp, remat;         // above these keys
};

// Returns the plan in the layout of format_plan.h, without default values.
// @pre A file can express the plan: rules of full paths come before those of blocks, block by block, each key once in
// its block; texts are UTF-8; styles are of its dialect; a style without an axis needs none.
[[nodiscard]] std::string write_plan(const TpPlan& plan, const PlanComments& comments = {});

// Returns why `text` is not read as this plan; empty if it is.
[[nodiscard]] std::string round_trip_error(const std::string& text, const TpPlan& plan);

// Returns the text in double quotes, as YAML reads it.
[[nodiscard]] std::string quoted_text(std::string_view text);

// Returns a key in quotes: in single ones if it is a regular expression with backslashes and needs no escape.
[[nodiscard]] std::string key_text(std::string_view key);

// Returns the value of a rule: `colwise`, `{spec: [tp, null]}`. Omits the axis if it is `default_axis`.
[[nodiscard]] std::string rule_text(const PlanRule& rule, const Mesh& mesh, AxisId default_axis);

}  // namespace tpplan
