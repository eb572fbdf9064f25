#include "judge.h"

#include "infer/apply_fsdp.h"
#include "infer/check_coverage.h"
#include "infer/check_heads.h"
#include "infer/check_limits.h"
#include "infer/check_neighbours.h"
#include "infer/infer_params.h"
#include "infer/resolve_ties.h"
#include "walk/runtimes.h"

namespace tpplan {

Judgement judge(const ModelGraph& graph, const TpPlan& plan, Diagnostics& diagnostics, Phase last,
                const WalkOptions& walk) {
  Judgement j;
  const auto done = [&](Phase phase) {
    j.reached = phase;
    return phase >= last || has_errors(diagnostics);
  };
  if (last <= Phase::Plan) return j;
  j.matches = match_plan(plan, graph, diagnostics);
  if (done(Phase::Matches)) return j;
  j.shardings = infer_params(plan, graph, j.matches, diagnostics);
  resolve_ties(plan, graph, j.shardings, diagnostics);
  check_heads(plan, graph, j.shardings, diagnostics);
  if (has_errors(diagnostics)) return j;  // FSDP on top of what is wrong would say nothing true
  apply_fsdp(plan, graph, j.matches, j.shardings, diagnostics);
  check_coverage(plan, graph, j.matches, j.shardings, diagnostics);
  check_limits(plan, graph, j.shardings, diagnostics);
  // What the tree of modules lets one guess counts only where nobody walks the operations.
  if (!graph.operations.is_there || find_runtime(walk.runtime.value_or(plan.dialect->runtime)) == nullptr)
    check_neighbours(plan, graph, j.matches, j.shardings, diagnostics);
  if (done(Phase::Shardings)) return j;
  j.boundaries = infer_boundaries(plan, graph, j.matches, diagnostics);
  j.forecast = walk_graph(plan, graph, j.matches, j.shardings, j.boundaries, walk, diagnostics);
  if (done(Phase::Boundaries)) return j;
  j.init = apply_init(plan, graph, j.matches, j.shardings, diagnostics);
  return j;
}

}  // namespace tpplan
