// Resizes the operations of a traced step to another batch size and sequence length.
#pragma once

#include <cstdint>

#include "diagnostics/diagnostics.h"
#include "model/op_graph.h"

namespace tpplan {

// 0: as traced.
struct StepSizes {
  int64_t batch = 0, sequence = 0;
};

inline constexpr int64_t kMaxStepSize = int64_t{1} << 24;

// Recomputes what follows from the sizes of dims 0 and 1 of the inputs: the shape of every value, by the rule of its
// operation, and the value of every size expression. Sizes that depend on data (the tokens of an expert) stay as
// traced. Reports TP2015 and returns false, with the graph unchanged, if the code would take another branch: a
// comparison of sizes (OpGraph::guards) has another result, or an operation no longer fits. `file` is the model file.
[[nodiscard]] bool resize_graph(OpGraph& graph, FileId file, const StepSizes& sizes, Diagnostics& diagnostics);

}  // namespace tpplan
