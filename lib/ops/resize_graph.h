// The operations of a recorded step, as they would be recorded at another batch and sequence length.
#pragma once

#include <cstdint>

#include "diagnostics/diagnostics.h"
#include "graph/op_graph.h"

namespace tpplan {

// 0: as recorded.
struct StepSizes {
  int64_t batch = 0, sequence = 0;
};

inline constexpr int64_t kMaxStepSize = int64_t{1} << 24;

// Works out anew what follows from the sizes of the inputs, whose dims 0 and 1 they are: the shape of every value, by
// the rules of its operation, and what every size comes to. What depends on data (how many tokens an expert gets) stays
// as recorded. Reports TP2015 and returns false, with the graph as it was, where the code would have gone another way:
// a comparison of sizes (OpGraph::guards) comes out otherwise, or an operation no longer fits. `file` is the model's.
[[nodiscard]] bool resize_graph(OpGraph& graph, FileId file, const StepSizes& sizes, Diagnostics& diagnostics);

}  // namespace tpplan
