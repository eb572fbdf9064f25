// Edits of a plan that mend what the walk over the operations found wrong. Every one was tried: the edited plan was
// judged in memory, and no error was left. What only silences a finding is no remedy: a rule that cuts stays one that
// cuts.
#pragma once

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/read_plan.h"
#include "plan/tp_plan.h"
#include "walk/walk_graph.h"

namespace tpplan {

// Gives findings that say how a run would fail (Diagnostic::fails) the first edit of one rule that makes the whole plan
// right, as help: another style for the rule at fault, or for the one that it meets, or no such rule, or a rule for the
// module that the finding names; or other styles for two rules; where there is none, lengths of the sequence or sizes
// of the axis with which the plan is right as it stands. Costs at most a fixed number of operations walked, whatever
// the model. The edit is the finding's own (Diagnostic::edits) where the plan's file can be edited so and is right
// then.
void find_remedies(const ModelGraph& graph, const TpPlan& plan, const SourceFile& file, const MeshSizes& mesh_sizes,
                   const WalkOptions& walk, Diagnostics& diagnostics);

}  // namespace tpplan
