#include "suggest/suggest_meshes.h"

#include <algorithm>
#include <set>

#include "resolve/infer/build_manifest.h"

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

// How each mesh is checked and priced.
struct Trying {
  Checker& checker;
  const WalkOptions& walk;
  const Recipe& recipe;
  const CostInputs* step;  // nullptr: the exported step
};

// Prices a step as `check --run` does. A topology that has no figures for this mesh gives no seconds.
void price_run_trial(const Trying& t, const TpPlan& plan, const CheckResult& j, MeshTrial& trial) {
  const ModelGraph& graph = t.checker.graph;
  Manifest manifest = build_manifest(plan, graph, j.matches, j.shardings, j.boundaries, j.init,
                                     t.walk.runtime.value_or(plan.dialect->runtime));
  manifest.costs = j.costs;
  trial.parameter_bytes = manifest.totals.max_bytes_per_rank;
  trial.wire_bytes = sum_calls(j.forecast.calls, plan.mesh).wire;
  Diagnostics ignored;
  const Topology topology = read_speeds(t.step->speeds, plan.mesh, ignored);
  const bool is_timed = !t.step->speeds.empty() && !has_errors(ignored);
  RunPrice price = price_checked_run(graph, plan, manifest, j, completed_run(t.step->run, plan, graph.operations),
                                     is_timed ? &topology : nullptr, t.step->scale);
  trial.seconds = price.seconds;
  price.memory.capacity = capacity_of(topology);
  trial.memory = std::move(price.memory);
}

MeshTrial try_mesh(const Trying& t, const TpPlan& plan) {
  MeshTrial trial{.mesh = plan.mesh};
  Diagnostics diagnostics;
  const CheckResult j = check_plan(t.checker, plan, diagnostics, Phase::Manifest, t.walk);
  const auto error =
      std::ranges::find_if(diagnostics.list, [](const Diagnostic& d) { return d.severity == Severity::Error; });
  trial.is_right = error == diagnostics.list.end();
  if (!trial.is_right) {
    trial.code = error->code;
    trial.reason = error->message;
    return trial;
  }
  trial.limit = j.forecast.limit;
  if (t.step != nullptr) {
    price_run_trial(t, plan, j, trial);
  } else {
    Price price = price_plan(t.checker.graph, plan, j, t.walk, t.recipe);
    trial.parameter_bytes = price.parameter_bytes;
    trial.wire_bytes = price.sent.wire;
    trial.memory = std::move(price.memory);
  }
  if (!trial.memory->has_step || trial.memory->overflow) trial.memory.reset();
  return trial;
}

std::set<int64_t> sizes_to_try(int64_t plan_size, int64_t most, bool threes) {
  std::set<int64_t> sizes{plan_size};
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
                                      const Recipe& recipe, const CostInputs* step) {
  const Trying trying{.checker = checker, .walk = walk, .recipe = recipe, .step = step};
  const AxisId axis = main_axis(plan), fsdp = plan.fsdp ? plan.fsdp->axis : kNoAxis;
  const auto plan_size = [&plan](AxisId id) { return id == kNoAxis ? int64_t{1} : plan.mesh.axes[id].size; };
  std::vector<MeshTrial> trials;
  TpPlan other = plan;
  for (const int64_t size : sizes_to_try(plan_size(axis), axis == kNoAxis ? 1 : most_ranks, true)) {
    if (axis != kNoAxis) other.mesh.axes[axis].size = size;
    for (const int64_t groups : sizes_to_try(plan_size(fsdp), fsdp == kNoAxis ? 1 : kMostFsdp, false)) {
      if (fsdp != kNoAxis) other.mesh.axes[fsdp].size = groups;
      const bool is_of_plan = size == plan_size(axis) && groups == plan_size(fsdp);
      if (!is_of_plan && device_count(other.mesh) > most_ranks) continue;
      trials.push_back(try_mesh(trying, other));
      trials.back().is_of_plan = is_of_plan;
      if (!trials.back().is_right && groups == 1) break;
    }
  }
  std::ranges::stable_sort(trials, {}, [](const MeshTrial& trial) { return device_count(trial.mesh); });
  return trials;
}

}  // namespace tpplan
