// Tensors of weight files -> ModelGraph: modules and parameters by their names, kinds where the names say them.
#pragma once

#include <string>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "weights/weight_files.h"

namespace tpplan {

// Makes a model of `files`: tensor `a.b.weight` is parameter `weight` of module `a.b`, of type "Unknown"; modules stand
// in order of their paths, numbers by their value. A module's kind is guessed by a table where the name is certain, and
// what was guessed is said in `guesses` ("2 modules are linear ... by their names"). `heads` (num_heads 0: not known)
// is given to modules that are called as attention is. The graph keeps views into `files`. Appends what it finds to
// `files.diagnostics`; false after any error.
[[nodiscard]] bool build_weights_model(WeightFiles& files, const ModuleAttributes& heads, ModelGraph& graph,
                                       std::string& guesses);

}  // namespace tpplan
