#include "search/sample_plans.h"

#include <algorithm>

namespace tpplan {

PlanChoice choice_of(const MeshCosts& costs, const SearchMesh& mesh, const Solution& found) {
  const EndCost& ends = costs.ends[found.end];
  PlanChoice choice{.mesh = mesh,
                    .table = ends.table,
                    .head = ends.head,
                    .first_sharded = ends.first_sharded,
                    .last_sharded = ends.last_sharded,
                    .layers = {}};
  for (const uint32_t layer : found.layers) choice.layers.push_back(costs.layers[layer].choice);
  return choice;
}

std::vector<Solution> sample_plans(const MeshCosts& costs, const SolveLimits& limits) {
  constexpr uint64_t kSteps = 6;  // between the least memory and the fastest plan
  std::vector<Solution> plans;
  const auto add = [&](Objective objective, std::optional<uint64_t> memory) {
    auto found =
        solve_mesh(costs, {.layers = limits.layers, .memory = memory, .objective = objective, .most_kinds = 2});
    const bool is_new = found && std::ranges::none_of(plans, [&](const Solution& plan) {
                          return plan.end == found->end && plan.layers == found->layers;
                        });
    if (is_new) plans.push_back(std::move(*found));
  };
  add(Objective::Time, std::nullopt);
  add(Objective::Memory, std::nullopt);
  if (plans.size() == 2) {
    const uint64_t most = plans[0].memory, least = plans[1].memory;
    for (uint64_t step = 1; step < kSteps && least < most; ++step)
      add(Objective::Time, least + (most - least) / kSteps * step);
  }
  if (limits.memory) add(Objective::Time, limits.memory);
  std::ranges::stable_sort(plans, {}, &Solution::seconds);
  return plans;
}

}  // namespace tpplan
