// The lines of a model file's `"graph"` -> OpGraph.
#pragma once

#include <span>

#include "diagnostics/diagnostics.h"
#include "model/graph_tokens.h"
#include "model/model_graph.h"

namespace tpplan {

// Reads the graph notation, which print_graph writes, into `model.operations`. Reports an invalid line (TP2016) and
// returns false. prove_graph checks the result. @pre complete_graph has run.
[[nodiscard]] bool read_graph_text(std::span<const GraphLine> lines, ModelGraph& model, Diagnostics& diagnostics);

}  // namespace tpplan
