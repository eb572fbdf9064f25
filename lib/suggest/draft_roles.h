// The role of a layer in a draft plan, by its name (for MLP layers model/mlp_roles.h). To support a new name, add a
// row.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/model_graph.h"

namespace tpplan {

enum class DraftRole : uint8_t {
  None,
  Query,
  Key,
  Value,
  Fused,        // q, k and v in one projection
  Latent,       // down projection to a latent that all heads share
  LatentKv,     // down projection to the kv latent and the rope part of the key
  FromLatent,   // up projection from a latent to heads
  Out,          // output projection from heads
  HeadNorm,     // norm over each head of queries or keys
  FullNorm,     // norm over all heads of queries or keys together
  HeadTable,    // embedding with values for each head, such as T5's relative positions
  HeadParam,    // parameters of the attention module with a dim of heads
  HeadOther,    // other parameters of the attention module
  HeadsModule,  // attention module that has HeadParam
  Up,           // projection into the hidden layer of an MLP
  FusedUp,      // gate and up in one projection
  Down,         // projection out of the hidden layer of an MLP
  Activation,   // activation of the hidden layer, with parameters
  ExpertsUp,    // up (and gate) weights of all experts in one tensor
  ExpertsDown,
  ExpertsOther,
  ExpertsModule,  // module of the experts
  Router,
  Tokens,  // token embedding
  Head,    // output head over the vocabulary
  Single,  // any other linear layer
  Table,   // any other embedding
  Whole,   // layers without a known sharding
};

// Returns the role of a linear layer. Returns Out for names that may also be Down; find_units.h distinguishes them by
// the sibling layers.
[[nodiscard]] DraftRole linear_role(const ModelGraph& graph, ModuleId id);

// True for the down projection of an MLP.
[[nodiscard]] bool is_down_projection(const ModelGraph& graph, ModuleId id);

// True for names of activations.
[[nodiscard]] bool is_activation_name(std::string_view leaf);

// Returns HeadNorm for norms of queries or keys, else None.
[[nodiscard]] DraftRole norm_role(std::string_view leaf);

// Returns ExpertsUp, ExpertsDown or ExpertsOther for a parameter of experts.
[[nodiscard]] DraftRole expert_role(std::string_view param);

// True for a module that only wraps layers of its parent: `attention.self.query` is a query of `attention`.
[[nodiscard]] bool is_wrapper_module(std::string_view parent, std::string_view leaf);

// True for position and token-type embeddings, which are small and added to every token.
[[nodiscard]] bool is_position_table(std::string_view leaf);

}  // namespace tpplan
