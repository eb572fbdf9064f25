// Walks the operations of a model under a plan: forward with the layout of every value, then backward with the state of
// its gradient. Reports operations that fail or compute wrong values, and lists every collective. Eager execution is
// deterministic, so there is no search. Some runtimes walk each mesh axis separately, the others all axes together.
#pragma once

#include "diagnostics/diagnostics.h"
#include "resolve/infer/resolved_plan.h"
#include "walk/forecast.h"
#include "walk/walk_options.h"

namespace tpplan {

struct ModelTables;
struct WalkMemory;

// Walks one step. Reports TP5102 to TP5118 and TP5121 to TP5123. Does nothing if the model has no graph. `tables` are
// those of the model (walk/layers/model_tables.h). `memory` of earlier walks saves time and does not change the result.
[[nodiscard]] Forecast walk_graph(const ResolvedPlan& resolved, const ModelTables& tables, WalkMemory& memory,
                                  const WalkOptions& options, Diagnostics& diagnostics);

}  // namespace tpplan
