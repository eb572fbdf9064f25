// Plans how the operations of a model are walked: by which runtime, and over which axes at a time.
#pragma once

#include <vector>

#include "resolve/infer/resolved_plan.h"
#include "walk/forecast.h"
#include "walk/state/walk_state.h"
#include "walk/walk_options.h"

namespace tpplan {

struct WalkPlan {
  ForecastLimit limit = ForecastLimit::None;  // why nothing is walked
  std::vector<WalkInput> walks;               // in order
  std::vector<AxisId> unlisted;               // data axes whose calls the wrapper of the model makes
  bool is_traced = false;                     // a trace is requested, and one walk has all axes
  bool is_unsharded = false;                  // no axis shards anything: the model is walked for its trace only
};

// Plans the walks of a model with operations. `tables` are those of the model. The walks refer to `resolved` and
// `tables`.
[[nodiscard]] WalkPlan plan_walk(const ResolvedPlan& resolved, const ModelTables& tables, const WalkOptions& options);

}  // namespace tpplan
