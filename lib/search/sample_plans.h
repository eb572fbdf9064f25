// The best plans of a mesh for several amounts of memory: time against memory, as a report draws it.
#pragma once

#include <vector>

#include "search/choice.h"
#include "search/solve.h"

namespace tpplan {

// Returns the choice of a sequence.
[[nodiscard]] PlanChoice choice_of(const MeshCosts& costs, const SearchMesh& mesh, const Solution& found);

// Returns the fastest plans of at most two kinds of layers, from the least memory of such plans to any, also those over
// the limit; each once, the fastest first.
[[nodiscard]] std::vector<Solution> sample_plans(const MeshCosts& costs, const SolveLimits& limits);

}  // namespace tpplan
