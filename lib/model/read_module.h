// Reads one entry of a model's `modules`.
#pragma once

#include "model/model_reader.h"

namespace tpplan {

// Reserves memory for the modules of a file of this size.
void reserve_modules(ModelReader& reader);

// Appends the module in `tree`, with its parameters and buffers, to the graph.
void read_module(ModelReader& reader, const JsonTree& tree);

}  // namespace tpplan
