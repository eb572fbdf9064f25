// Layers of a model that compute the same.
#pragma once

#include <span>
#include <vector>

#include "walk/model_tables.h"

namespace tpplan {

// Modules whose paths differ in their last number, called one after the other, as far as they are alike in all that a
// walk looks at, names aside. Where they are so in turns (two kinds of layers, one after the other), a turn counts as
// one. Those inside of others are not looked at.
[[nodiscard]] std::vector<LayerStack> find_stacks(const ModelGraph& model, std::span<const ModuleId> module_of_string,
                                                  std::span<const ParamId> param_of_leaf);

}  // namespace tpplan
