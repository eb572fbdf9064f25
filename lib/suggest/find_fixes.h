// Edits of a plan that fix errors of the walk over the operations. Each edited plan is checked in memory and has no
// errors. An edit must not only hide a diagnostic, so a rule that shards continues to shard.
#pragma once

#include "diagnostics/diagnostics.h"
#include "judge/judge.h"
#include "plan/read_plan.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Sets the help of diagnostics with a predicted failure (Diagnostic::fails) to an edit that makes the plan correct,
// except for errors that `judge.is_known` accepts. `matches` are those of the plan. Candidates, in order:
// - add a rule for the embedding that owns a tied weight (transformers)
// - remove `forward_dtype`
// - leave local shards as DTensors (`use_local_output: false`)
// - remove a rule, change its style, or exchange the styles of two rules or of a module's rules: the cheapest right
//   change (parameter bytes of a rank plus bytes sent per step) of the rules at the diagnostic, at its notes, and of
//   the layers in its module
// - add a rule for the diagnostic's module, for a layer in it, or for its parameter
// - change the styles of two rules
// - use sequence lengths, or else sizes of the axis, with which the unchanged plan is correct
//
// Also sets Diagnostic::edits if the edited file of the plan is correct. The number of walked operations is bounded,
// independent of the model.
void find_fixes(Checker& checker, const TpPlan& plan, const MatchTable& matches, const SourceFile& file,
                const MeshSizes& mesh_sizes, const WalkOptions& walk, Diagnostics& diagnostics);

}  // namespace tpplan
