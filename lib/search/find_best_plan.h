// The best plan of a model for a number of ranks: the search over meshes, each solved exactly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/appraise.h"
#include "search/next_best.h"
#include "search/solve.h"

namespace tpplan {

// The sizes of an axis that the search may choose.
struct AxisBounds {
  int64_t least = 1, most = INT64_MAX;
};

struct SearchRequest {
  int64_t ranks = 1, batch = 1, sequence = 0;  // batch: of all ranks in one step
  AxisBounds dp, fsdp, tp;
  std::optional<uint64_t> memory;  // bytes of a rank
  Objective objective = Objective::Time;
  double simple = 0;  // share of the optimum that fewer kinds of layers may cost; 0: the optimum
  size_t top = 5;     // meshes of the answer
  bool has_samples = false;
};

// A plan of a mesh, judged on the whole model.
struct MeshPlan {
  SearchMesh mesh;
  int64_t batch = 1;  // of a data rank
  StepFigures figures;
  PlanChoice choice;
  size_t kinds = 0;               // of layers
  std::vector<UnitChoice> units;  // with the next best strategy of each
};

// A mesh without a plan.
struct MeshLeftOut {
  SearchMesh mesh;
  std::string why;
};

struct SearchAnswer {
  std::vector<MeshPlan> meshes;      // with a plan that fits, best first; at most `top`
  std::optional<MeshPlan> best;      // the plan to use: that of `meshes`, or with fewer kinds of layers
  double bound = 0;                  // no plan of the space has a smaller objective
  bool is_exact = true;              // false: a judged plan does not cost what its parts do, and `bound` is less sure
  std::optional<MeshPlan> smallest;  // without a plan that fits: the plan with the least memory
  std::vector<MeshLeftOut> omitted;
  std::vector<MeshPlan> samples;  // if requested: plans of each measured mesh by the sums of parts, also over the limit
  size_t tried = 0;               // meshes
  size_t ways = 0;                // kinds of layers of a mesh at most
  uint64_t probes = 0;            // plans that were judged
};

// Returns the number that the search minimizes.
[[nodiscard]] double objective_of(const SearchRequest& request, const StepFigures& figures);

// Returns the meshes {dp, fsdp, tp} of the ranks within the bounds, whether or not they divide the batch.
[[nodiscard]] std::vector<SearchMesh> meshes_of(const SearchRequest& request);

[[nodiscard]] SearchAnswer find_best_plan(const ModelGraph& model, const SearchSpace& space, const CostInputs& inputs,
                                          const SearchRequest& request);

}  // namespace tpplan
