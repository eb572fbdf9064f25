#include "resolve/dialects/compare_nnx.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>

#include "model/name_subject.h"

namespace tpplan {
namespace {

// Returns what NNX does otherwise for these names; empty if nothing. `rule`: the rule that it concerns.
std::string nnx_difference(const TpPlan& plan, const NameRules& rules, std::span<const std::string_view> names,
                           std::span<const RuleId> decided, RuleId& rule) {
  std::vector<size_t> dim_of_axis(plan.mesh.axes.size(), names.size());
  for (size_t dim = 0; dim < names.size(); ++dim) {
    if (names[dim].empty()) continue;
    const auto named = rules.find(names[dim]);
    if (named == rules.end()) {
      const bool is_axis = std::ranges::find(plan.mesh.axes, names[dim], &MeshAxis::name) != plan.mesh.axes.end();
      return fmt::format("no rule has the name `{}`, so NNX uses it as a mesh axis{}", names[dim],
                         is_axis ? "" : " and raises ValueError; Linen replicates the dim");
    }
    const RuleId last = named->second.back();
    const DimAxes& axes = plan.rules[last].spec->before.front();
    rule = last;
    for (const AxisId axis : axes) {
      if (dim_of_axis[axis] < dim)
        return fmt::format("axis `{}` would shard `{}` and `{}`: NNX raises DuplicateSpecError; Linen passes over it",
                           axis_name(plan.mesh, axis), names[dim_of_axis[axis]], names[dim]);
      dim_of_axis[axis] = dim;
    }
    const DimAxes linen = decided[dim] == kNoRule ? DimAxes{} : plan.rules[decided[dim]].spec->before.front();
    if (axes != linen)
      return fmt::format("NNX applies the last rule of `{}`, {}; Linen applies {}", names[dim],
                         to_text(axes, plan.mesh), to_text(linen, plan.mesh));
  }
  return {};
}

}  // namespace

void compare_nnx(const TpPlan& plan, const ModelGraph& graph, const Param& param, const NameRules& rules,
                 std::span<const std::string_view> names, std::span<const RuleId> decided, Diagnostics& diagnostics) {
  if (std::ranges::none_of(names, [&](std::string_view name) { return rules.contains(name); })) return;
  RuleId rule = kNoRule;
  const std::string difference = nnx_difference(plan, rules, names, decided, rule);
  if (difference.empty()) return;
  const Span place = rule == kNoRule ? plan.rules_span : plan.rules[rule].key_span;
  Diagnostic* d = report(diagnostics, Code::NnxResolvesOtherwise, place, "nnx");
  if (d == nullptr) return;
  name_subject(*d, graph, param);
  d->counted = "parameter";
  d->message =
      fmt::format("Flax NNX and Linen resolve the rules differently for `{}`: {}", path_of(graph, param), difference);
  d->notes.push_back({"this plan is resolved as Linen and MaxText do", {}});
  d->help = "write one rule for each name, with different axes, or suppress this warning if the model uses Linen";
}

}  // namespace tpplan
