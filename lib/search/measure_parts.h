// The costs of the parts of a model on one mesh: layers, ends, changes of the state between layers. They follow from
// plans of a model with few layers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "search/appraise.h"
#include "search/solve.h"

namespace tpplan {

// Meshes on which a judged plan has figures without being judged again: FSDP shards the same parameters, or there is
// more than one data rank on all of them or on none.
struct MeshGroup {
  SearchMesh mesh;  // on which plans are judged
  bool has_fsdp = false;
  std::vector<bool> sharded;  // by parameter: by FSDP, if all layers are
};

// Models of few layers at the sizes of a step, for one size of tp.
struct Prober {
  const SearchSpace* space = nullptr;
  Appraiser few, fewer;  // fewer has one layer less; without a graph if `few` has all layers
  size_t few_layers = 0;
  std::vector<MeshGroup> groups;
  std::map<PlanChoice, JudgedStep> judged;  // by the mesh of a group; its size is the number of probes
  PlanChoice checked_choice;                // the last one that was checked, without `remat`
  std::unique_ptr<TpPlan> checked_plan;     // of which `checked` has views
  CheckedChoice checked;
};

// What is measured. Kinds of layers with findings are left out; `why` gives one of them if none is left.
struct MeasuredParts {
  MeshCosts costs;
  std::string why;
};

// Returns a lower bound of the seconds of a layer on every mesh with the same tp; 0 if there is none.
[[nodiscard]] double least_layer_seconds(Prober& prober, const SearchMesh& mesh, bool has_fsdp);

// `has_fsdp`: the plan has FSDP, which needs an axis of more than one rank.
[[nodiscard]] MeasuredParts measure_parts(Prober& prober, const SearchMesh& mesh, bool has_fsdp);

}  // namespace tpplan
