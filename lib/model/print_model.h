// Prints a model graph as text.
#pragma once

#include <string>

#include "model/model_graph.h"

namespace tpplan {

// Returns the text of `--print model`: a line per module with its kind, and a line per parameter with shape, dtype and
// dim names.
[[nodiscard]] std::string dump(const ModelGraph& graph);

}  // namespace tpplan
