// The costs of the parts of a model on one mesh: layers, ends, changes of the state between layers. They follow from
// plans of a model with few layers.
#pragma once

#include <string>

#include "search/appraise.h"
#include "search/solve.h"

namespace tpplan {

// Models of few layers at the sizes of a step.
struct Prober {
  const SearchSpace* space = nullptr;
  size_t layers = 0;     // of the model
  Appraiser few, fewer;  // fewer has one layer less; without a graph if `few` has all layers
  size_t few_layers = 0;
  uint64_t probes = 0;
};

// What is measured. Kinds of layers with findings are left out; `why` gives one of them if none is left.
struct MeasuredParts {
  MeshCosts costs;
  size_t omitted = 0;
  std::string why;
};

// `has_fsdp`: the plan has FSDP, which needs an axis of more than one rank.
[[nodiscard]] MeasuredParts measure_parts(Prober& prober, const SearchMesh& mesh, bool has_fsdp);

}  // namespace tpplan
