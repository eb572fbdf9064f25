// Reads a model file into a ModelGraph.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"

namespace tpplan {

// Reads a model file (schemas/model.schema.json) with its traced operations. The graph has views into `file`, which
// must outlive it. Reports every error with its position; the graph is valid only if no error was reported.
[[nodiscard]] ModelGraph read_model(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan
