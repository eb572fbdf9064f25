// What of a model depends on its framework or on other entries, once all of them are read.
#pragma once

#include "model/model_reader.h"

namespace tpplan {

// Checks paths and names, gives modules without a kind that of their type, adds ancestors that the file does not list,
// and finds the dims that segments and granularity name and the parameters that ties name.
void complete_graph(ModelReader& reader);

}  // namespace tpplan
