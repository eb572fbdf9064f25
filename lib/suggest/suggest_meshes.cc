#include "suggest/suggest_meshes.h"

#include <algorithm>
#include <set>

#include "suggest/price.h"

namespace tpplan {
namespace {

constexpr int64_t kMostFsdp = 8;

std::vector<AxisId> axes_of_rule(const PlanRule& rule) {
  if (rule.axis != kNoAxis) return {rule.axis};
  std::vector<AxisId> axes;
  if (!rule.spec) return axes;
  for (const auto* dims : {&rule.spec->before, &rule.spec->after}) {
    for (const DimAxes& dim : *dims) axes.insert(axes.end(), dim.begin(), dim.end());
  }
  return axes;
}

MeshTrial try_mesh(Checker& checker, const TpPlan& plan, const WalkOptions& walk, const Recipe& recipe) {
  MeshTrial trial{.mesh = plan.mesh};
  Diagnostics diagnostics;
  const CheckResult j = check_plan(checker, plan, diagnostics, Phase::Manifest, walk);
  const auto error =
      std::ranges::find_if(diagnostics.list, [](const Diagnostic& d) { return d.severity == Severity::Error; });
  trial.is_right = error == diagnostics.list.end();
  if (!trial.is_right) {
    trial.code = error->code;
    trial.reason = error->message;
    return trial;
  }
  const Price price = price_plan(checker.graph, plan, j, walk, recipe);
  trial.limit = j.forecast.limit;
  trial.parameter_bytes = price.parameter_bytes;
  trial.wire_bytes = price.sent.wire;
  if (price.memory.has_step && !price.memory.overflow) trial.memory_bytes = price.memory.total;
  return trial;
}

std::set<int64_t> sizes_to_try(int64_t own, int64_t most, bool threes) {
  std::set<int64_t> sizes{own};
  for (int64_t two = 1; two <= most; two *= 2) {
    for (int64_t size = two; size <= most; size *= 3) {
      sizes.insert(size);
      if (!threes) break;
    }
  }
  return sizes;
}

}  // namespace

AxisId main_axis(const TpPlan& plan) {
  std::vector<size_t> uses(plan.mesh.axes.size());
  for (const PlanRule& rule : plan.rules) {
    for (const AxisId axis : axes_of_rule(rule)) {
      if (!plan.fsdp || axis != plan.fsdp->axis) ++uses[axis];
    }
  }
  const auto most = std::ranges::max_element(uses);
  return most == uses.end() || *most == 0 ? kNoAxis : static_cast<AxisId>(most - uses.begin());
}

std::vector<MeshTrial> suggest_meshes(Checker& checker, const TpPlan& plan, const WalkOptions& walk, int64_t most_ranks,
                                      const Recipe& recipe) {
  const AxisId axis = main_axis(plan), fsdp = plan.fsdp ? plan.fsdp->axis : kNoAxis;
  const auto own = [&plan](AxisId id) { return id == kNoAxis ? int64_t{1} : plan.mesh.axes[id].size; };
  std::vector<MeshTrial> trials;
  TpPlan other = plan;
  for (const int64_t size : sizes_to_try(own(axis), axis == kNoAxis ? 1 : most_ranks, true)) {
    if (axis != kNoAxis) other.mesh.axes[axis].size = size;
    for (const int64_t groups : sizes_to_try(own(fsdp), fsdp == kNoAxis ? 1 : kMostFsdp, false)) {
      if (fsdp != kNoAxis) other.mesh.axes[fsdp].size = groups;
      const bool is_own = size == own(axis) && groups == own(fsdp);
      if (!is_own && device_count(other.mesh) > most_ranks) continue;
      trials.push_back(try_mesh(checker, other, walk, recipe));
      trials.back().is_own = is_own;
      if (!trials.back().is_right && groups == 1) break;
    }
  }
  std::ranges::stable_sort(trials, {}, [](const MeshTrial& trial) { return device_count(trial.mesh); });
  return trials;
}

}  // namespace tpplan
