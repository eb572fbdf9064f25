// OpGraph -> the graph notation, which read_graph_text reads back.
#pragma once

#include "base/write_file.h"
#include "model/model_graph.h"

namespace tpplan {

// Prints the operations of a model, one call and its result types a line. The lines of a module are indented below
// `with`. Returns false if `sink` does. @pre prove_graph accepted the graph.
[[nodiscard]] bool print_graph(const ModelGraph& model, const Sink& sink);

}  // namespace tpplan
