// Validates the traced operations against the model before they are walked.
#pragma once

#include "model/model_graph.h"

namespace tpplan {

// Validates the graph: every id exists, every value has one definition before its uses, and boundaries nest. Sizes use
// defined values; parameters and modules exist in `model`. Sets SizeEntry::traced. Reports TP2013 or TP2014 and returns
// false at the first error.
[[nodiscard]] bool prove_graph(OpGraph& graph, const ModelGraph& model, Diagnostics& diagnostics);

}  // namespace tpplan
