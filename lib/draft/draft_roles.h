// What a layer is for a first plan, by its name: tables. A new name is a row.
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
  Fused,        // q, k and v in one
  Latent,       // down to a latent that all heads share
  LatentKv,     // the same, with what rope turns beside it
  FromLatent,   // from a latent to heads
  Out,          // from heads
  HeadNorm,     // of each head
  WholeNorm,    // of queries or keys, over all heads together
  HeadTable,    // numbers for each head: positions of T5
  HeadParam,    // parameters of the attention itself with a dim of heads
  HeadOther,    // its others
  HeadsModule,  // the attention, where it has HeadParam
  Up,           // into the hidden layer of an MLP
  FusedUp,      // gate and up in one
  Down,         // out of it
  Activation,   // of the hidden layer, with parameters
  ExpertsUp,    // parameters of experts that stand in one tensor
  ExpertsDown,
  ExpertsOther,
  ExpertsModule,  // what holds them
  Router,
  Tokens,  // the embedding of tokens
  Head,    // scores of tokens
  Alone,   // a linear layer that none of these is
  Table,   // an embedding that none of these is
  Whole,   // what no way of cutting is known for
};

// Of a linear layer called `leaf` in a module called `parent`. Out where the name may be Down too: which of the two
// says what stands beside it (find_units.h).
[[nodiscard]] DraftRole linear_role(std::string_view parent, std::string_view leaf);

// True for names that layers out of an MLP have.
[[nodiscard]] bool is_down_name(std::string_view parent, std::string_view leaf);

// True for names of activations.
[[nodiscard]] bool is_activation_name(std::string_view leaf);

// HeadNorm, or None.
[[nodiscard]] DraftRole norm_role(std::string_view leaf);

// ExpertsUp, ExpertsDown or ExpertsOther, of a parameter of experts.
[[nodiscard]] DraftRole expert_role(std::string_view param);

// True for a module whose name only wraps what its parent is: `attention.self.query` is a query of `attention`.
[[nodiscard]] bool is_wrapper(std::string_view parent, std::string_view leaf);

// True for tables of positions and kinds of tokens: small, and added to every token.
[[nodiscard]] bool is_position_table(std::string_view leaf);

}  // namespace tpplan
