// The tensors that a recorded program names.
#pragma once

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"

namespace tpplan {

// True if each argument of the model's program that is a parameter or a buffer exists in the model with this shape, and
// each gradient is that of a parameter. Reports TP2017 otherwise. @pre the model has a program
[[nodiscard]] bool check_program(const ModelGraph& graph, Diagnostics& diagnostics);

}  // namespace tpplan
