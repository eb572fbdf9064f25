// Tables of a model that do not depend on the plan, built once for all its walks.
#pragma once

#include <vector>

#include "walk/layers/find_stacks.h"

namespace tpplan {

struct ModelTables {
  std::vector<ModuleId> module_of_string;  // by StringId; kNone if it names no module that runs
  std::vector<ParamId> param_of_leaf;      // by leaf; kNone if it is no parameter
  bool is_shard_map = false;               // the operations were traced under jax.shard_map
  int64_t rope_dim = 0;                    // `qk_rope_head_dim` of the configuration; 0: none
  std::vector<LayerStack> stacks;          // in the order of their nodes, without overlaps
};

[[nodiscard]] ModelTables make_model_tables(const ModelGraph& model);

}  // namespace tpplan
