// What a walk needs of a model whatever the plan is: made once for all walks of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_graph.h"

namespace tpplan {

// Layers (or groups of layers) one behind the other that compute the same: each node, value, size, module, parameter
// and leaf of one is that of the one before, plus a number. A layer sees values that were made before the first one
// (the same for all), and of the layer before it.
struct LayerStack {
  uint32_t count = 0;             // layers
  uint32_t node = 0, nodes = 0;   // where the first begins; how many each has. The same of the others:
  ValueId value = 0, values = 0;  // that operations make, and leaves
  uint32_t size = 0, sizes = 0;   // into OpGraph::sizes
  ModuleId module = 0, modules = 0;
  ParamId param = 0, params = 0;
  uint32_t leaf = 0, leaves = 0;  // into OpGraph::leaves
  ValueId since = 0;              // values from here on are others in each layer
  std::vector<ValueId> taken;     // by the first layer, of those that were made before it; each once
};

struct ModelTables {
  std::vector<ModuleId> module_of_string;  // by StringId, kNone where it is no module that is entered
  std::vector<ParamId> param_of_leaf;      // by leaf, kNone where it is none
  bool is_shard_map = false;               // its operations are those of a program under jax.shard_map
  int64_t rope_dim = 0;                    // `qk_rope_head_dim` of the model's configuration; 0: it has none
  std::vector<LayerStack> stacks;          // in the order of their nodes; they do not overlap
};

[[nodiscard]] ModelTables make_model_tables(const ModelGraph& model);

}  // namespace tpplan
