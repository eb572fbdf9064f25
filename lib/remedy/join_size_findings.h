// Findings that are all of one size of the mesh.
#pragma once

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Where several findings say that tensors, heads or blocks do not divide, and another size of the axis that styles
// shard over would leave none of them: makes one finding of them, at the axis, with the sizes that fit the whole plan.
// Each size is tried. Models of more parameters than a moment suffices for keep their findings.
void join_size_findings(const ModelGraph& graph, const TpPlan& plan, Diagnostics& diagnostics);

}  // namespace tpplan
