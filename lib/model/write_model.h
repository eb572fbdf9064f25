// Writes a ModelGraph as a model file.
#pragma once

#include <string_view>

#include "base/write_file.h"
#include "model/model_graph.h"

namespace tpplan {

// Writes the graph as a model file (schemas/model.schema.json), one module per line in file order. The field `graph` is
// the JSON text `operations`, omitted if empty; ModelGraph::operations is ignored. Returns false if the sink fails.
// @pre kinds are set, and the dim of every segment has a name.
[[nodiscard]] bool write_model(const ModelGraph& graph, std::string_view operations, const Sink& sink);

}  // namespace tpplan
