// Model file -> ModelGraph.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"

namespace tpplan {

inline constexpr std::string_view kModelFormat = "tpplan.model/1";

inline constexpr size_t kMaxModelBytes = size_t{2} * 1024 * 1024 * 1024;
inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxDims = 64;

// Reads a model file (schemas/model.schema.json). The graph keeps views into `file`, which must outlive it. Reports
// every fault with its place; the graph is only meaningful when no error was reported. The operations under "graph" are
// checked for JSON syntax and left unread.
[[nodiscard]] ModelGraph read_model(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan
