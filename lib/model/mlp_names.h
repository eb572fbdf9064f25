// What a layer of an MLP is, by the last part of its path. A new name is a row in mlp_names.cc.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpplan {

enum class MlpRole : uint8_t {
  None,     // no name of a layer of an MLP
  Gate,     // into the hidden layer, beside another layer with whose output its own is multiplied
  Up,       // into it
  FusedUp,  // gate and up in one
  Down,     // out of it
};

struct MlpName {
  std::string_view parent;  // the part before the leaf; empty: any
  std::string_view leaf;
  MlpRole role{};
  std::string_view up;  // of a Gate: the layer that its output meets, beside it
};

// The row of a layer called `leaf` in a module called `parent`; nullptr: none. Names that projections of attentions
// have, too (attention_names.h), are among them: what stands beside the layer says which it is.
[[nodiscard]] const MlpName* find_mlp_name(std::string_view parent, std::string_view leaf);

// The role of that row.
[[nodiscard]] MlpRole mlp_role(std::string_view parent, std::string_view leaf);

}  // namespace tpplan
