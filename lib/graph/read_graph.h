// "graph" of a model file, as a stream -> OpGraph.
#pragma once

#include "graph/op_graph.h"
#include "syntax/json_reader.h"

namespace tpplan {

// What is remembered while a graph is read.
struct GraphReader {
  OpGraph& graph;
  FileId file;
  Diagnostics& diagnostics;
  bool failed = false;
};

// How `read_json` reads the members of `"graph"`. What is of the wrong form is reported (TP2003); whether ids, shapes
// and boundaries fit together is prove_graph's. The visitor points into `reader`.
[[nodiscard]] JsonVisitor graph_visitor(GraphReader& reader);

}  // namespace tpplan
