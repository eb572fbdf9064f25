#include "judge.h"

#include <algorithm>

#include "cost/count_step.h"
#include "diagnostics/remove_findings.h"
#include "infer/apply_fsdp.h"
#include "infer/check_coverage.h"
#include "infer/check_heads.h"
#include "infer/check_limits.h"
#include "infer/check_loss.h"
#include "infer/check_neighbours.h"
#include "infer/grad_reduce.h"
#include "infer/infer_params.h"
#include "infer/resolve_ties.h"
#include "judge_tables.h"

namespace tpplan {

namespace {

// What these say of a run is foretold from names and shapes. The walk has seen the run.
constexpr Code kForetold[] = {Code::TP5008, Code::TP5013, Code::TP5019, Code::TP5020};

// True when the rule at this place decides over something in the module, or in the one that it stands in.
bool is_about(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, const Span& span,
              ModuleId module) {
  const ModuleId above = parent_of(graph, module);
  const std::string_view scope = above == kNone ? std::string_view{} : graph.modules[above].path;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    const RuleId rule = matches.params[id].rule;
    if (rule == kNoRule || plan.rules[rule].value_span.offset != span.offset) continue;
    if (is_below(graph, graph.modules[graph.params[id].module].path, scope)) return true;
  }
  return false;
}

// Findings about what the walk has decided: where it went to its end it found an error or there is none; where the run
// ends early, those of the same part of the model are the same cause.
void drop_foretold(const TpPlan& plan, const ModelGraph& graph, const Judgement& j, Diagnostics& diagnostics) {
  const ForecastGap gap = j.forecast.gap;
  if (gap != ForecastGap::None && gap != ForecastGap::Broken && gap != ForecastGap::Forward) return;
  remove_findings(diagnostics, [&](const Diagnostic& d) {
    return std::find(std::begin(kForetold), std::end(kForetold), d.code) != std::end(kForetold) &&
           (gap != ForecastGap::Broken || j.forecast.broken_at == kNone ||
            is_about(plan, graph, j.matches, d.span, j.forecast.broken_at));
  });
}

}  // namespace

Judgement judge(const ModelGraph& graph, const TpPlan& plan, Diagnostics& diagnostics, Phase last,
                const WalkOptions& options, JudgeTables* tables) {
  Judgement j;
  WalkOptions walk = options;
  if (tables != nullptr) walk.kept = &tables->walk;
  const auto done = [&](Phase phase) {
    j.reached = phase;
    return phase >= last || has_errors(diagnostics);
  };
  if (last <= Phase::Plan) return j;
  j.matches = match_plan(plan, graph, diagnostics, tables == nullptr ? nullptr : &tables->hits);
  if (done(Phase::Matches)) return j;
  j.shardings = infer_params(plan, graph, j.matches, diagnostics);
  resolve_ties(plan, graph, j.shardings, diagnostics);
  check_heads(plan, graph, j.shardings, diagnostics);
  if (has_errors(diagnostics)) return j;  // FSDP on top of what is wrong would say nothing true
  apply_fsdp(plan, graph, j.matches, j.shardings, diagnostics);
  check_coverage(plan, graph, j.matches, j.shardings, diagnostics);
  check_limits(plan, graph, j.shardings, diagnostics);
  // What the tree of modules lets one guess counts only where nobody walks the operations.
  if (!graph.operations.is_there) check_neighbours(plan, graph, j.matches, j.shardings, diagnostics);
  if (done(Phase::Shardings)) return j;
  j.boundaries = infer_boundaries(plan, graph, j.matches, diagnostics);
  if (done(Phase::Boundaries)) return j;
  j.forecast = walk_graph(plan, graph, j.matches, j.shardings, j.boundaries, walk, diagnostics);
  drop_foretold(plan, graph, j, diagnostics);
  if (const auto loss = resolved_loss(plan, data_gradients(walk.runtime.value_or(plan.dialect->runtime))))
    check_loss(plan, graph, *loss, j.matches, j.shardings, walk.infer, diagnostics);
  j.costs = count_step(j.forecast.trace, graph, j.matches.patterns.remat);
  if (done(Phase::Operations)) return j;
  j.init = apply_init(plan, graph, j.matches, j.shardings, diagnostics);
  return j;
}

}  // namespace tpplan
