// Roles of MLP layers by the last part of their path. To add a name, add a row in mlp_names.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tpplan {

enum class MlpRole : uint8_t {
  None,     // not an MLP layer
  Gate,     // into the hidden dim; its output is multiplied with that of another up layer
  Up,       // into the hidden dim
  FusedUp,  // gate and up, fused
  Down,     // out of the hidden dim
};

struct MlpName {
  std::string_view parent;  // the part before the leaf; empty matches any
  std::string_view leaf;
  MlpRole role{};
  std::string_view up;  // for a Gate: the sibling layer whose output is multiplied with the gate's
};

[[nodiscard]] std::span<const MlpName> mlp_names();

// Returns the row of a layer called `leaf` in a module called `parent`, or nullptr. Some names also denote attention
// projections (attention_names.h); the caller decides by the sibling layers.
[[nodiscard]] const MlpName* find_mlp_name(std::string_view parent, std::string_view leaf);

// Returns the role of that row, or MlpRole::None.
[[nodiscard]] MlpRole mlp_role(std::string_view parent, std::string_view leaf);

}  // namespace tpplan
