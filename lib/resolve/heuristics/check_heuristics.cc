#include "resolve/heuristics/check_heuristics.h"

#include "resolve/heuristics/check_neighbours.h"
#include "resolve/heuristics/check_norms.h"
#include "resolve/heuristics/check_splits.h"
#include "resolve/heuristics/check_token_ids.h"
#include "resolve/infer/check_heads.h"

namespace tpplan {

void check_heuristics(const HeuristicInput& in) {
  check_splits(in);
  if (in.plan.dialect->follows_framework) check_heads(in.plan, in.graph, in.shardings, in.walk_failed, in.diagnostics);
  if (in.has_errors) return;
  check_norms(in);
  // Values of JAX and Keras are global arrays: a layer that expects another sharding gets it.
  if (!in.graph.operations.is_there && in.graph.framework == Framework::Torch) check_neighbours(in);
  if (in.boundaries != nullptr) check_token_ids(in);
}

}  // namespace tpplan
