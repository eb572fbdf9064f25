// Whether what each operation is recorded to give is what its rule says of whole operands.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "graph/op_graph.h"

namespace tpplan {

// Before any plan is laid on it: an operation that cannot be, or that gives another size than the file says, is TP2013
// at its place, and the result false. What has no rule is not looked at; rules
// of the model's own are read. Operations that are alike are looked at once.
[[nodiscard]] bool prove_shapes(const OpGraph& graph, FileId file, Diagnostics& diagnostics);

}  // namespace tpplan
