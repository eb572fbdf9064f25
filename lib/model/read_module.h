// One entry of a model's `modules`.
#pragma once

#include "model/model_reader.h"

namespace tpplan {

// Appends the module that `tree` is, and its parameters and buffers, to the graph.
void read_module(ModelReader& reader, const JsonTree& tree);

}  // namespace tpplan
