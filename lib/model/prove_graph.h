// The graph of operations x the model -> a graph that may be walked.
#pragma once

#include "model/model_graph.h"

namespace tpplan {

// Proves what was read: every id exists, has one definition and stands before its uses, boundaries nest, sizes are of
// values that are known, parameters and modules are those of `model`. Fills in what sizes came to in the recorded run.
// Reports TP2013 and TP2014 and returns false where anything is wrong.
[[nodiscard]] bool prove_graph(OpGraph& graph, const ModelGraph& model, Diagnostics& diagnostics);

}  // namespace tpplan
