// The sizes of a plan's axes with which it is right: every one is tried, and what it costs is counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/recipes.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "walk/walk_graph.h"

namespace tpplan {

// A mesh that was tried.
struct MeshTrial {
  Mesh mesh;
  bool is_own = false;    // as the plan has it
  bool is_right = false;  // no error; else the first one:
  Code code{};
  std::string reason;
  uint64_t parameter_bytes = 0;               // of the rank that holds most
  std::optional<uint64_t> memory_bytes;       // of rank 0 in a step, by the recipe; absent: activations are not known
  uint64_t wire_bytes = 0;                    // that a rank sends in one step, in rings (measure/measure_collectives.h)
  ForecastGap gap = ForecastGap::NotReached;  // None: wire_bytes counts
};

// Tries the axis that styles shard over at sizes 2^a 3^b, FSDP's at powers of two up to eight, and both at what the
// plan has, as long as there are at most `most_ranks` ranks; other axes stay as they are. A size of the first that is
// wrong without FSDP is not tried with it. `walk` asks for the trace where memory is to be known. In order of ranks,
// then of the first axis. The plan has been read without an error.
[[nodiscard]] std::vector<MeshTrial> suggest_meshes(const ModelGraph& graph, const TpPlan& plan,
                                                    const WalkOptions& walk, int64_t most_ranks, const Recipe& recipe);

// The axis over which most rules shard; kNoAxis where there is no rule.
[[nodiscard]] AxisId main_axis(const TpPlan& plan);

}  // namespace tpplan
