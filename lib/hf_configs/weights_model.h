// Builds a ModelGraph from the tensors of weight files: modules and parameters by their names, and kinds that follow
// from names.
#pragma once

#include <string>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "weights/weight_files.h"

namespace tpplan {

// Builds a model of `files`: tensor `a.b.weight` is parameter `weight` of module `a.b`, of type "Unknown". Modules are
// sorted by path, numbers by their value. A table guesses the kind of a module if its name is certain; `guesses` has a
// summary ("2 modules are linear ... by their names"). Modules with the name of an attention get `heads` (num_heads 0:
// unknown). The graph keeps views into `files`. Diagnostics go to `files.diagnostics`. Returns false after any error.
[[nodiscard]] bool build_weights_model(WeightFiles& files, const ModuleAttributes& heads, ModelGraph& graph,
                                       std::string& guesses);

}  // namespace tpplan
