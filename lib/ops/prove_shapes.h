// Checks that the traced result of each operation is the one that its rule computes for replicated operands.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "model/op_graph.h"

namespace tpplan {

// Runs before any plan is applied. Reports TP2013 and returns false if an operation is impossible or has another result
// size than the file states. Skips operations without a rule; parses the rules of the model file. Checks identical
// operations once.
[[nodiscard]] bool prove_shapes(const OpGraph& graph, FileId file, Diagnostics& diagnostics);

}  // namespace tpplan
