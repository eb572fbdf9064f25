#include "price.h"

#include "infer/build_manifest.h"

namespace tpplan {

Price price_plan(const ModelGraph& graph, const TpPlan& plan, const Judgement& judgement, const WalkOptions& walk,
                 const Recipe& recipe, const Topology* topology) {
  const Judgement& j = judgement;
  Manifest manifest = build_manifest(plan, graph, j.matches, j.shardings, j.boundaries, j.init,
                                     walk.runtime.value_or(plan.dialect->runtime));
  Price price{.knows_step = j.forecast.gap == ForecastGap::None, .parameter_bytes = manifest.totals.max_bytes_per_rank};
  if (price.knows_step) manifest.costs = j.costs;
  price.memory = measure_training(manifest, recipe);
  if (!price.knows_step) return price;
  price.sent = sum_calls(j.forecast.calls, plan.mesh);
  if (topology != nullptr && manifest.costs.is_there)
    price.time = measure_time(j.forecast.calls, plan.mesh, manifest.costs, data_axes_of(plan), *topology);
  return price;
}

}  // namespace tpplan
