#include "resolve/infer/walked_gradients.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace tpplan {
namespace {

bool is_of(const WalkedValue& found, bool is_output, const ValueBoundary& value) {
  return found.is_output == is_output && found.kwarg == value.kwarg && (!value.kwarg.empty() || found.arg == value.arg);
}

// Returns what the walk found for a value; nullopt if no gradient reached it. A module that runs several times has one
// answer: a partial gradient if any of its calls has one.
std::optional<GradientReduction> sums_of(std::span<const WalkedGradient> found, bool is_output,
                                         const ValueBoundary& value) {
  std::optional<GradientReduction> sums;
  for (const WalkedGradient& gradient : found) {
    if (!is_of(gradient.value, is_output, value)) continue;
    sums = std::max(sums.value_or(GradientReduction::None), gradient.sums);
  }
  return sums;
}

// Returns a layout with the gradients that the walk found in one module.
BoundaryLayout with_gradients(const TpPlan& plan, BoundaryLayout layout, std::span<const WalkedGradient> found) {
  const PlanRule& rule = plan.rules[layout.rule];
  for (auto* values : {&layout.inputs, &layout.outputs}) {
    for (ValueBoundary& value : *values) {
      const auto sums = value.gradient ? sums_of(found, values == &layout.outputs, value) : std::nullopt;
      if (!sums) continue;
      const GradientLayouts gradient = gradient_layouts(*value.from, *value.to, rule.axis, *sums);
      if (is_gradient_of(gradient, *value.from, *value.to)) set_gradient(plan, rule, value, gradient);
    }
  }
  return layout;
}

// Replaces each boundary by what `change` returns for its layout. Boundaries with equal results share one.
template <typename Change>
void change_boundaries(BoundaryTable& table, Change change) {
  BoundaryTable walked{.layouts = {}, .modules = std::move(table.modules)};
  // The layouts made of one layout, which differ in what the walk found.
  std::vector<std::vector<uint32_t>> made(table.layouts.size());
  for (ModuleBoundary& boundary : walked.modules) {
    BoundaryLayout layout = change(boundary.module, table.layouts[boundary.layout]);
    const auto same = [&](uint32_t id) {
      const auto equal = [](const ValueBoundary& a, const ValueBoundary& b) {
        return a.from == b.from && a.gradient == b.gradient;
      };
      return std::ranges::equal(walked.layouts[id].inputs, layout.inputs, equal) &&
             std::ranges::equal(walked.layouts[id].outputs, layout.outputs, equal);
    };
    std::vector<uint32_t>& ids = made[boundary.layout];
    auto id = std::ranges::find_if(ids, same);
    if (id == ids.end()) {
      id = ids.insert(ids.end(), static_cast<uint32_t>(walked.layouts.size()));
      walked.layouts.push_back(std::move(layout));
    }
    boundary.layout = *id;
  }
  table = std::move(walked);
}

template <typename Walked>
std::map<std::pair<ModuleId, RuleId>, std::vector<Walked>> by_module(std::span<const Walked> found) {
  std::map<std::pair<ModuleId, RuleId>, std::vector<Walked>> of_module;
  for (const Walked& walked : found) of_module[{walked.value.module, walked.value.rule}].push_back(walked);
  return of_module;
}

// Returns a layout with the placements that the walk found in one module.
BoundaryLayout with_placements(const TpPlan& plan, BoundaryLayout layout, std::span<const WalkedPlacement> found) {
  const AxisId axis = plan.rules[layout.rule].axis;
  for (auto* values : {&layout.inputs, &layout.outputs}) {
    for (ValueBoundary& value : *values) {
      const auto actual = std::ranges::find_if(
          found, [&](const WalkedPlacement& p) { return is_of(p.value, values == &layout.outputs, value); });
      if (actual == found.end() || !value.from || !value.to) continue;
      std::vector<Placement> from = *value.from;
      from[axis] = actual->actual;
      const auto steps = steps_between(from, *value.to, plan.mesh);
      if (!steps) continue;
      value.from = std::move(from);
      value.forward = *steps;
      if (value.gradient)
        set_gradient(plan, plan.rules[layout.rule], value,
                     gradient_layouts(*value.from, *value.to, axis, GradientReduction::None));
    }
  }
  return layout;
}

}  // namespace

void apply_walked_placements(const TpPlan& plan, std::span<const WalkedPlacement> placements, BoundaryTable& table) {
  const auto of_module = by_module(placements);
  change_boundaries(table, [&](ModuleId module, const BoundaryLayout& before) {
    const auto found = of_module.find({module, before.rule});
    return found == of_module.end() ? before : with_placements(plan, before, found->second);
  });
}

void apply_walked_gradients(const TpPlan& plan, std::span<const WalkedGradient> gradients, BoundaryTable& table) {
  const auto of_module = by_module(gradients);
  change_boundaries(table, [&](ModuleId module, const BoundaryLayout& before) {
    const auto found = of_module.find({module, before.rule});
    return found == of_module.end() ? before : with_gradients(plan, before, found->second);
  });
}

}  // namespace tpplan
