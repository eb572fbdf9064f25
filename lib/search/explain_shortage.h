// Why no plan fits into the memory of a rank, and which changes were tried that make one fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search/find_best_plan.h"

namespace tpplan {

// A step with more ranks or another recipe.
struct TriedStep {
  int64_t ranks = 1;
  std::string recipe;
  SearchMesh mesh;
  uint64_t memory = 0;  // that the allocator reserves
};

struct Shortage {
  TrainingMemory memory;        // of the smallest plan, at its peak
  uint64_t over = 0;            // bytes over the limit
  bool is_recomputed = false;   // the smallest plan recomputes every layer
  std::vector<TriedStep> fits;  // more ranks first
  int64_t most_ranks = 0;       // that were tried; 0: no mesh of more ranks has a plan for this batch on these axes
};

// Measures the smallest plan, and tries twice, four times, ... as many ranks until one fits, and the other recipes with
// the same plan.
// @pre request.memory is set, and `smallest` is over it
[[nodiscard]] Shortage explain_shortage(const ModelGraph& model, const SearchSpace& space, const CostInputs& inputs,
                                        const SearchRequest& request, const MeshPlan& smallest);

}  // namespace tpplan
