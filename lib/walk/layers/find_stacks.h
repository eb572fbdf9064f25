// Detection of identical layers in a model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_graph.h"

namespace tpplan {

// Consecutive layers (or groups of layers) that compute the same. Each node, value, size, module, parameter and leaf of
// a layer has the id of the previous layer's plus a constant. A layer uses values made before the first layer, which
// are the same for all, and values of the previous layer.
struct LayerStack {
  uint32_t count = 0;             // number of layers
  uint32_t node = 0, nodes = 0;   // begin of the first layer and count of each layer; likewise for the others
  ValueId value = 0, values = 0;  // results and leaves
  uint32_t size = 0, sizes = 0;   // into OpGraph::sizes
  ModuleId module = 0, modules = 0;
  ParamId param = 0, params = 0;
  uint32_t leaf = 0, leaves = 0;  // into OpGraph::leaves
  ValueId since = 0;              // smaller ids are the same value in all layers
  std::vector<ValueId> taken;     // values before the first layer that it uses, without duplicates
};

// Returns the stacks of layers: consecutive modules whose paths differ in their last number. They are equal in
// everything that a walk reads, except names. If several kinds of layers alternate, one period counts as a layer.
// Stacks inside layers are not detected.
[[nodiscard]] std::vector<LayerStack> find_stacks(const ModelGraph& model, std::span<const ModuleId> module_of_string,
                                                  std::span<const ParamId> param_of_leaf);

}  // namespace tpplan
