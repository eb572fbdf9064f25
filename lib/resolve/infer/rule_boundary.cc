#include "resolve/infer/rule_boundary.h"

namespace tpplan {
namespace {

// Returns one value for each position and keyword in the options, all with the same `use_local`.
std::vector<RuleValue> named_values(const std::optional<std::vector<Layout>>& positions,
                                    const std::optional<KwargLayouts>& keywords, bool use_local) {
  std::vector<RuleValue> values;
  for (size_t i = 0; positions && i < positions->size(); ++i)
    values.push_back({.arg = static_cast<int>(i), .kwarg = {}, .use_local = use_local});
  for (size_t i = 0; keywords && i < keywords->size(); ++i)
    values.push_back({.kwarg = (*keywords)[i].first, .use_local = use_local});
  return values;
}

}  // namespace

std::optional<RuleBoundary> boundary_of(const PlanRule& rule) {
  if (rule.style == nullptr || rule.axis == kNoAxis) return std::nullopt;
  const StyleRow& style = *rule.style;
  const RuleOptions& o = rule.options;
  const bool local_output = o.use_local_output.value_or(style.use_local);
  RuleBoundary boundary{.axis = rule.axis};
  if (style.touches_parameters) {
    if (style.input.used) boundary.inputs.emplace_back();
    if (style.input.used && style.second_input != 0)
      boundary.inputs.push_back({.arg = style.second_input, .kwarg = {}, .use_local = {}});
    if (style.output.used) boundary.outputs.push_back({.kwarg = {}, .use_local = local_output});
    return boundary;
  }
  // In prepare_module_input, `use_local_output` applies to the inputs (torch 2.13, style.py: PrepareModuleInput).
  boundary.inputs = named_values(o.input_layouts, o.input_kwarg_layouts,
                                 style.output.used ? o.use_local_input.value_or(false) : local_output);
  if (style.output.used) boundary.outputs = named_values(o.output_layouts, std::nullopt, local_output);
  return boundary;
}

}  // namespace tpplan
