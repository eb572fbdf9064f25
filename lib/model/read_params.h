// Reads the parameters and buffers of a module.
#pragma once

#include "model/model_reader.h"

namespace tpplan {

// Appends the tensors of the object at `at` to the graph's parameters, or to its buffers if `are_buffers`.
void read_params(ModelReader& reader, const JsonTree& tree, uint32_t at, ModuleId module, bool are_buffers);

}  // namespace tpplan
