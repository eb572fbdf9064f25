// Axis sizes with which a plan is correct: each mesh is checked, and its costs are computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/recipes.h"
#include "judge/judge.h"
#include "plan/tp_plan.h"
#include "suggest/price.h"

namespace tpplan {

// A checked mesh with its costs.
struct MeshTrial {
  Mesh mesh;
  bool is_of_plan = false;  // the mesh of the plan
  bool is_right = false;    // no error; otherwise `code` and `reason` are those of the first error
  Code code{};
  std::string reason;
  uint64_t parameter_bytes = 0;          // maximum over ranks
  std::optional<TrainingMemory> memory;  // of rank 0 in a step; absent: activations are unknown
  double seconds = 0;                    // of a step; 0: unknown, or not asked for
  uint64_t wire_bytes = 0;               // sent by a rank per step, with ring collectives (cost/measure_collectives.h)
  ForecastLimit limit = ForecastLimit::NotReached;  // None: wire_bytes is valid
};

// Returns the checked meshes, sorted by ranks and then by the size of the main axis. Sizes of the main axis are 2^a
// 3^b, of the FSDP axis powers of two up to eight; both include the plan's size. Meshes with more than `most_ranks`
// ranks are skipped, except the plan's. Other axes do not change. If a size is wrong with an FSDP size of 1, larger
// FSDP sizes are skipped. `memory` needs the trace in `walk`. With `step`, memory and seconds are those of `check
// --run`, otherwise the memory is that of the exported step and `recipe`.
// @pre the plan has been read without errors
[[nodiscard]] std::vector<MeshTrial> suggest_meshes(Checker& checker, const TpPlan& plan, const WalkOptions& walk,
                                                    int64_t most_ranks, const Recipe& recipe,
                                                    const CostInputs* step = nullptr);

// Returns the axis, other than the FSDP axis, over which most rules shard; kNoAxis if no rule shards.
[[nodiscard]] AxisId main_axis(const TpPlan& plan);

}  // namespace tpplan
