// Completes a model after all its entries are read: the steps that depend on the framework or on other entries.
#pragma once

#include "model/model_reader.h"

namespace tpplan {

// Fills ModelGraph::module_index. Reports paths that several modules have.
void index_modules(ModelReader& reader);

// Checks paths and names, derives missing kinds from module types, sets parents, and adds ancestors that the file does
// not list. Resolves the dim names of segments and granularity, and the parameter names of ties. Names the
// dims of scales after those of their quantized weights.
void complete_graph(ModelReader& reader);

}  // namespace tpplan
