// The orientation of matrices whose names two layer types share: torch's Linear stores (out, in), transformers' Conv1D
// (GPT-2) stores (in, out).
#pragma once

#include "model/model_graph.h"

namespace tpplan {

// True for names that both layer types have in published checkpoints.
[[nodiscard]] bool may_be_conv1d(std::string_view leaf);

// Sets the kind of such modules to Linear, and the type Conv1D if the matrix is stored as (in, out), where sizes
// decide: the first layers of a block read the hidden size, `c_proj` returns it. Square matrices follow the other
// matrices of the model. Modules stay of kind Other if the hidden size is unknown or sizes contradict each other.
void orient_matrices(ModelGraph& graph);

}  // namespace tpplan
