// The role of an MLP layer by its name and by the sizes of the layers beside it.
#pragma once

#include "model/mlp_names.h"
#include "model/model_graph.h"

namespace tpplan {

// Features that a linear layer reads and returns; 0 if its weight has no such dim.
struct LinearSizes {
  int64_t in = 0, out = 0;
};

[[nodiscard]] LinearSizes sizes_of_linear(const ModelGraph& graph, ModuleId id);

// Returns the role of a layer. Sizes take precedence over its name: families use a name for different roles (`w2` is
// Llama's down projection, but reads the hidden state in Qwen-1; Megatron's `linear_fc1` may hold gate and up).
[[nodiscard]] MlpRole mlp_role_of(const ModelGraph& graph, ModuleId id);

// True for a layer that is a down projection by its name, but an up projection by its sizes.
[[nodiscard]] bool is_up_by_size(const ModelGraph& graph, ModuleId id);

// Returns the down projection beside a layer, or kNone.
[[nodiscard]] ModuleId find_down(const ModelGraph& graph, ModuleId id);

}  // namespace tpplan
