#include "walk/plan_walk.h"

#include <algorithm>
#include <span>
#include <utility>

#include "resolve/infer/grad_reduce.h"
#include "walk/runtimes.h"

namespace tpplan {
namespace {

// With more ranks, each axis is walked separately.
constexpr int64_t kMostRanksTogether = 4096;

// True if a rule with a style, or a sharding, uses the axis.
bool is_used(const TpPlan& plan, const ShardingTable& shardings, AxisId axis) {
  return std::any_of(plan.rules.begin(), plan.rules.end(),
                     [axis](const PlanRule& rule) { return rule.style != nullptr && rule.axis == axis; }) ||
         std::any_of(shardings.shardings.begin(), shardings.shardings.end(),
                     [axis](const Sharding& sharding) { return uses_axis(sharding.spec, axis); });
}

// Returns the axes that are walked, in mesh order.
std::vector<AxisId> walked_axes(const ResolvedPlan& resolved, const RuntimeRow& runtime) {
  const TpPlan& plan = resolved.plan;
  std::vector<AxisId> axes;
  for (size_t at = 0; at < plan.mesh.axes.size(); ++at) {
    const auto axis = static_cast<AxisId>(at);
    const bool counts = runtime.all_axes || (is_used(plan, resolved.shardings, axis) && !is_data_axis(plan, axis));
    if (counts && plan.mesh.axes[axis].size > 1) axes.push_back(axis);
  }
  return axes;
}

// Returns the data axes with more than one rank.
std::vector<AxisId> used_data_axes(const TpPlan& plan, const RuntimeRow& runtime) {
  if (runtime.all_axes) return {};
  std::vector<AxisId> axes = data_axes_of(plan);
  std::erase_if(axes, [&](AxisId axis) { return plan.mesh.axes[axis].size == 1; });
  return axes;
}

// True if the axes have more ranks than a walk handles together.
bool has_too_many_ranks(const Mesh& mesh, const std::vector<AxisId>& axes) {
  int64_t ranks = 1;
  for (const AxisId axis : axes) ranks = std::min(kMostRanksTogether + 1, ranks * mesh.axes[axis].size);
  return ranks > kMostRanksTogether;
}

}  // namespace

WalkPlan plan_walk(const ResolvedPlan& resolved, const ModelTables& tables, const WalkOptions& options) {
  const TpPlan& plan = resolved.plan;
  const OpGraph& graph = resolved.model.operations;
  const bool is_local = tables.is_shard_map;
  const PlanRuntime requested = options.runtime.value_or(is_local ? PlanRuntime::ShardMap : plan.dialect->runtime);
  WalkPlan walk_plan;
  if (is_local != (requested == PlanRuntime::ShardMap)) {
    walk_plan.limit = is_local ? ForecastLimit::Global : ForecastLimit::Elsewhere;
    return walk_plan;
  }
  const RuntimeRow& runtime = runtime_row(requested);
  const std::vector<AxisId> axes = walked_axes(resolved, runtime);
  std::vector<AxisId> data_axes = used_data_axes(plan, runtime);
  if (!runtime.has_data_axes) walk_plan.unlisted = std::exchange(data_axes, {});
  std::optional<Loss> loss = resolved_loss(plan, data_grad_reduction(runtime.runtime));
  if (is_local || (loss && static_cast<size_t>(loss->output) >= graph.outputs.size())) loss.reset();
  const bool one_axis = runtime.one_axis || has_too_many_ranks(plan.mesh, axes);
  const size_t at_once = one_axis ? std::min<size_t>(1, axes.size()) : axes.size();
  walk_plan.is_traced = options.trace && !is_local && at_once == axes.size();
  // If no axis shards anything, only the trace is of interest: tpplan's runtime walks the unsharded model, and its
  // diagnostics are dropped.
  walk_plan.is_unsharded = options.trace && !is_local && axes.empty() && data_axes.empty();
  const RuntimeRow& walked = walk_plan.is_unsharded ? runtime_row(PlanRuntime::Tpplan) : runtime;
  const bool has_walk = !axes.empty() || !data_axes.empty() || walk_plan.is_unsharded;
  for (size_t i = 0; has_walk && (i == 0 || i < axes.size()); i += std::max<size_t>(1, at_once)) {
    const std::span<const AxisId> together = std::span(axes).subspan(i, at_once);
    size_t ranks = 1;
    for (const AxisId axis : together) ranks *= static_cast<size_t>(plan.mesh.axes[axis].size);
    walk_plan.walks.push_back({.plan = plan,
                               .model = resolved.model,
                               .graph = graph,
                               .matches = resolved.matches,
                               .shardings = resolved.shardings,
                               .boundaries = resolved.boundaries,
                               .model_tables = tables,
                               .runtime = walked,
                               .axes = {together.begin(), together.end()},
                               .data_axes = std::exchange(data_axes, {}),  // only once if axes are walked separately
                               .ranks = ranks,
                               .infer = options.infer,
                               .loss = loss});
  }
  return walk_plan;
}

}  // namespace tpplan
