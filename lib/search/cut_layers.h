// A model with fewer layers, on which a search tries plans: the costs of a layer do not depend on the number of layers.
#pragma once

#include "model/model_graph.h"
#include "walk/layers/find_stacks.h"

namespace tpplan {

// Returns a copy of the model with the first `keep` layers of a stack. What follows the stack uses the values of the
// last layer that is kept. The copy's views point into the model, which must outlive it.
// @pre 0 < keep <= stack.count, and the stack is of this model
[[nodiscard]] ModelGraph cut_layers(const ModelGraph& model, const LayerStack& stack, uint32_t keep);

}  // namespace tpplan
