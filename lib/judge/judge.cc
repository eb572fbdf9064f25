#include "judge/judge.h"

#include <vector>

#include "cost/count_step.h"
#include "judge/forecast_program.h"
#include "resolve/heuristics/check_heuristics.h"
#include "resolve/infer/apply_fsdp.h"
#include "resolve/infer/check_coverage.h"
#include "resolve/infer/check_heads.h"
#include "resolve/infer/check_limits.h"
#include "resolve/infer/check_loss.h"
#include "resolve/infer/check_quantized.h"
#include "resolve/infer/grad_reduce.h"
#include "resolve/infer/infer_params.h"
#include "resolve/infer/resolve_ties.h"
#include "resolve/infer/walked_gradients.h"
#include "resolve/match/match_plan.h"

namespace tpplan {

namespace {

// Returns a flag by RuleId: true if the rule applies to a parameter in or below the parent of the module where the walk
// failed. The error there and a heuristic diagnostic about such a rule have the same cause.
std::vector<bool> settled_rules(const ModelGraph& graph, const MatchTable& matches, ModuleId broken_at) {
  const ModuleId above = parent_of(graph, broken_at);
  const std::string_view scope = above == kNone ? std::string_view{} : graph.modules[above].path;
  std::vector<bool> walk_failed(matches.rules.size());
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    const RuleId rule = matches.params[id].rule;
    if (rule != kNoRule && is_below(graph, graph.modules[graph.params[id].module].path, scope))
      walk_failed[rule] = true;
  }
  return walk_failed;
}

// True if the walk covered the step (only the forward pass under jax.shard_map), or failed in no particular module.
bool is_decided(const Forecast& forecast) {
  return forecast.limit == ForecastLimit::None || forecast.limit == ForecastLimit::Forward ||
         (forecast.limit == ForecastLimit::Broken && forecast.broken_at == kNone);
}

// True if ranks run the operations eagerly, each on its part of the data.
bool is_torch_graph(const ModelGraph& graph) {
  return graph.operations.is_there && graph.framework == Framework::Torch;
}

CheckResult run_phases(Checker& checker, const TpPlan& plan, Diagnostics& diagnostics, Phase last,
                       const WalkOptions& options) {
  CheckResult j;
  const ModelGraph& graph = checker.graph;
  const auto done = [&](Phase phase) {
    j.reached = phase;
    return phase >= last || has_stopping_errors(diagnostics, checker.is_known);
  };
  if (last <= Phase::Plan) return j;
  j.matches = match_plan(plan, graph, diagnostics, &checker.hits);
  if (done(Phase::Matches)) return j;
  j.shardings = infer_params(plan, graph, j.matches, diagnostics);
  resolve_ties(plan, graph, j.shardings, diagnostics);
  check_quantized(plan, graph, j.matches, j.shardings, diagnostics);
  if (!plan.dialect->follows_framework) check_heads(plan, graph, j.shardings, {}, diagnostics);
  if (has_stopping_errors(diagnostics, checker.is_known))
    return j;  // FSDP on wrong shardings would cause false diagnostics
  apply_fsdp(plan, graph, j.matches, j.shardings, diagnostics);
  check_coverage(plan, graph, j.matches, j.shardings, diagnostics);
  check_limits(plan, graph, j.shardings, diagnostics);
  if (done(Phase::Shardings)) return j;
  j.boundaries = infer_boundaries(plan, graph, j.matches, diagnostics);
  if (done(Phase::Boundaries)) return j;
  std::vector<WalkedGradient> gradients;
  WalkOptions walk = options;
  std::vector<WalkedPlacement> placements;
  if (last == Phase::Manifest) {
    walk.gradients = &gradients;
    walk.placements = &placements;
  }
  const ResolvedPlan resolved{plan, graph, j.matches, j.shardings, j.boundaries};
  j.forecast = graph.program != nullptr && !graph.operations.is_there
                   ? forecast_program(resolved, diagnostics)
                   : walk_graph(resolved, checker.tables, checker.walk, walk, diagnostics);
  if (plan.data && is_torch_graph(graph)) check_data_dim(plan, graph, checker.tables, checker.data_dims, diagnostics);
  if (!placements.empty()) apply_walked_placements(plan, placements, j.boundaries);
  if (!gradients.empty()) apply_walked_gradients(plan, gradients, j.boundaries);
  if (const auto loss = resolved_loss(plan, data_grad_reduction(walk.runtime.value_or(plan.dialect->runtime))))
    check_loss(plan, graph, *loss, j.matches, j.shardings, walk.infer, diagnostics);
  j.costs = count_step(j.forecast.trace, graph, j.matches.patterns.remat);
  if (done(Phase::Operations)) return j;
  j.init = apply_init(plan, graph, j.matches, j.shardings, diagnostics);
  return j;
}

}  // namespace

Checker make_checker(const ModelGraph& graph) {
  return {.graph = graph, .tables = make_model_tables(graph), .hits = {}, .walk = {}, .data_dims = {}, .is_known = {}};
}

CheckResult check_plan(Checker& checker, const TpPlan& plan, Diagnostics& diagnostics, Phase last,
                       const WalkOptions& walk) {
  CheckResult j = run_phases(checker, plan, diagnostics, last, walk);
  const ModelGraph& graph = checker.graph;
  const bool has_shardings = j.reached >= Phase::Matches && j.shardings.params.size() == graph.params.size();
  if (!has_shardings || is_decided(j.forecast)) return j;
  HeuristicInput in{.plan = plan,
                    .graph = graph,
                    .matches = j.matches,
                    .shardings = j.shardings,
                    .has_errors = j.reached < Phase::Shardings,
                    .boundaries = j.reached >= Phase::Boundaries ? &j.boundaries : nullptr,
                    .walk_failed = {},
                    .diagnostics = diagnostics};
  if (j.forecast.limit == ForecastLimit::Broken) in.walk_failed = settled_rules(graph, j.matches, j.forecast.broken_at);
  check_heuristics(in);
  return j;
}

}  // namespace tpplan
