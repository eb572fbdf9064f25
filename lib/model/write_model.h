// ModelGraph -> model file.
#pragma once

#include <string_view>

#include "base/write_file.h"
#include "model/model_graph.h"

namespace tpplan {

// Writes the graph as a model file (schemas/model.schema.json), one module a line, in file order. Kinds are
// set, and every segment's dim has a name, by the table or in the graph. Module::offset is not asked, nor are
// ModelGraph::operations: the member `graph` is `operations`, JSON as it stands, and left out where that is empty.
// False as soon as the sink refuses.
[[nodiscard]] bool write_model(const ModelGraph& graph, std::string_view operations, const Sink& sink);

}  // namespace tpplan
