#include "model/mlp_names.h"

#include <algorithm>
#include <iterator>

namespace tpplan {
namespace {

// Names of MLP layers in common model families. The first match applies.
constexpr MlpName kNames[] = {
    {"intermediate", "dense", MlpRole::Up},  // BERT family
    {"output", "dense", MlpRole::Down},
    {{}, "gate_proj", MlpRole::Gate, "up_proj"},
    {{}, "up_proj", MlpRole::Up},
    {{}, "down_proj", MlpRole::Down},
    {{}, "fc1", MlpRole::Up},
    {{}, "fc2", MlpRole::Down},
    {{}, "c_fc", MlpRole::Up},
    {{}, "c_proj", MlpRole::Down},
    {{}, "fc_in", MlpRole::Up},
    {{}, "fc_out", MlpRole::Down},
    {{}, "w1", MlpRole::Gate, "w3"},
    {{}, "w3", MlpRole::Up},
    {{}, "w2", MlpRole::Down},
    {{}, "lin1", MlpRole::Up},
    {{}, "lin2", MlpRole::Down},
    {{}, "linear1", MlpRole::Up},
    {{}, "linear2", MlpRole::Down},
    {{}, "linear_fc1", MlpRole::Up},
    {{}, "linear_fc2", MlpRole::Down},
    {{}, "wi_0", MlpRole::Gate, "wi_1"},
    {{}, "wi_1", MlpRole::Up},
    {{}, "wi", MlpRole::Up},
    {{}, "wo", MlpRole::Down},
    {{}, "Wi", MlpRole::FusedUp},
    {{}, "Wo", MlpRole::Down},
    {{}, "dense_h_to_4h", MlpRole::Up},
    {{}, "dense_4h_to_h", MlpRole::Down},
    {{}, "intermediate_dense", MlpRole::Up},
    {{}, "output_dense", MlpRole::Down},
    {{}, "ffw_gating", MlpRole::Up},
    {{}, "ffw_gating_2", MlpRole::Up},
    {{}, "ffw_linear", MlpRole::Down},
    {{}, "gate_up_proj", MlpRole::FusedUp},
};

}  // namespace

std::span<const MlpName> mlp_names() { return kNames; }

const MlpName* find_mlp_name(std::string_view parent, std::string_view leaf) {
  const auto* row = std::ranges::find_if(
      kNames, [&](const MlpName& name) { return name.leaf == leaf && (name.parent.empty() || name.parent == parent); });
  return row == std::end(kNames) ? nullptr : row;
}

MlpRole mlp_role(std::string_view parent, std::string_view leaf) {
  const MlpName* row = find_mlp_name(parent, leaf);
  return row == nullptr ? MlpRole::None : row->role;
}

}  // namespace tpplan
