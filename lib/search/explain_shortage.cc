#include "search/explain_shortage.h"

#include <algorithm>

#include "cost/recipes.h"

namespace tpplan {
namespace {

constexpr int64_t kMostFactor = 64;  // of more ranks

// Returns the inputs of a step of the plan, with a recipe.
CostInputs inputs_of(const CostInputs& inputs, const SearchRequest& request, const MeshPlan& plan,
                     std::string_view recipe) {
  CostInputs sized = inputs;
  sized.run.batch = plan.batch;
  sized.run.sequence = request.sequence;
  sized.run.recipe = recipe;
  return sized;
}

// Returns a mesh of more ranks that can share the batch, with the size of tp of another one, or more if the batch needs
// it; no ranks if there is none.
SearchMesh larger_mesh(const SearchRequest& request, const SearchMesh& smallest, int64_t ranks) {
  for (int64_t tp = smallest.tp; tp <= ranks; tp *= 2) {
    if (tp > 1 && request.tp.most == 1) break;
    if (ranks % tp != 0 || request.batch % (ranks / tp) != 0) continue;
    const bool has_fsdp = request.fsdp.most > 1;
    if (ranks / tp > 1 && !has_fsdp && request.dp.most == 1) continue;
    return has_fsdp ? SearchMesh{1, ranks / tp, tp} : SearchMesh{ranks / tp, 1, tp};
  }
  return {0, 0, 0};
}

void try_ranks(const ModelGraph& model, const SearchSpace& space, const CostInputs& inputs,
               const SearchRequest& request, const MeshPlan& smallest, Shortage& shortage) {
  for (int64_t factor = 2; factor <= kMostFactor; factor *= 2) {
    SearchRequest larger = request;
    larger.ranks = request.ranks * factor;
    const SearchMesh mesh = larger_mesh(request, smallest.mesh, larger.ranks);
    if (mesh.tp == 0) continue;
    larger.dp = {mesh.dp, mesh.dp};
    larger.fsdp = {mesh.fsdp, mesh.fsdp};
    larger.tp = {mesh.tp, mesh.tp};
    larger.objective = Objective::Memory;
    larger.simple = 0;
    larger.top = 1;
    const SearchAnswer answer = find_best_plan(model, space, inputs, larger);
    if (answer.best || answer.smallest) shortage.most_ranks = larger.ranks;
    if (!answer.best) continue;
    shortage.fits.push_back({larger.ranks, inputs.run.recipe, mesh, answer.best->figures.memory});
    return;
  }
}

}  // namespace

Shortage explain_shortage(const ModelGraph& model, const SearchSpace& space, const CostInputs& inputs,
                          const SearchRequest& request, const MeshPlan& smallest) {
  const TpPlan plan = plan_of(space, smallest.choice).plan;
  Shortage shortage{.memory = {},
                    .over = smallest.figures.memory - *request.memory,
                    .is_recomputed = std::ranges::all_of(smallest.choice.layers, &LayerChoice::remat),
                    .fits = {}};
  const auto measure = [&](std::string_view recipe) {
    Diagnostics ignored;  // the plan was judged without findings
    return memory_of_plan(model, plan, inputs_of(inputs, request, smallest, recipe), ignored);
  };
  if (auto memory = measure(inputs.run.recipe)) shortage.memory = std::move(*memory);
  try_ranks(model, space, inputs, request, smallest, shortage);
  for (const Recipe& recipe : recipes()) {
    if (inputs.infer || recipe.gradient == ElementDtype::None || recipe.name == inputs.run.recipe) continue;
    const auto memory = measure(recipe.name);
    if (memory && reserved_of(*memory) <= *request.memory)
      shortage.fits.push_back({request.ranks, std::string(recipe.name), smallest.mesh, reserved_of(*memory)});
  }
  return shortage;
}

}  // namespace tpplan
