#include "suggest/draft_roles.h"

#include <algorithm>
#include <iterator>

#include "model/attention_names.h"
#include "model/mlp_roles.h"

namespace tpplan {
namespace {

struct RoleName {
  std::string_view parent;  // empty: any
  std::string_view leaf;
  DraftRole role;
};

// Names in addition to those of attention_names.h and mlp_names.h. The first matching row applies.
constexpr RoleName kRoleNames[] = {
    // DeepSeek's latent attention (transformers, DeepseekV3Attention).
    {"", "q_a_proj", DraftRole::Latent},      {"", "kv_a_proj_with_mqa", DraftRole::LatentKv},
    {"", "q_b_proj", DraftRole::FromLatent},  {"", "kv_b_proj", DraftRole::FromLatent},
    {"", "attention_output", DraftRole::Out}, {"", "gate", DraftRole::Router},
    {"", "router", DraftRole::Router},        {"", "shared_expert_gate", DraftRole::Router},
};

constexpr std::string_view kHeadNorms[] = {"q_norm",     "k_norm",   "q_layernorm",     "k_layernorm",
                                           "query_norm", "key_norm", "query_layernorm", "key_layernorm"};

constexpr RoleName kWrappers[] = {
    {"", "self", DraftRole::None},
    {"", "output", DraftRole::None},
    {"", "intermediate", DraftRole::None},
    {"attention", "attention", DraftRole::None},
};

bool is_row_for(const RoleName& row, std::string_view parent, std::string_view leaf) {
  return row.leaf == leaf && (row.parent.empty() || row.parent == parent);
}

DraftRole role_of_head(HeadRole role) {
  switch (role) {
    case HeadRole::Query:
      return DraftRole::Query;
    case HeadRole::Key:
      return DraftRole::Key;
    case HeadRole::Value:
      return DraftRole::Value;
    case HeadRole::FusedInBlocks:
    case HeadRole::FusedByHead:
      return DraftRole::Fused;
    case HeadRole::Output:
      return DraftRole::Out;
    case HeadRole::None:
      break;
  }
  return DraftRole::None;
}

// Returns None for Down, because other layers have some of its names too.
DraftRole role_of_mlp(MlpRole role) {
  switch (role) {
    case MlpRole::Gate:
    case MlpRole::Up:
      return DraftRole::Up;
    case MlpRole::FusedUp:
      return DraftRole::FusedUp;
    case MlpRole::Down:
    case MlpRole::None:
      break;
  }
  return DraftRole::None;
}

}  // namespace

DraftRole linear_role(const ModelGraph& graph, ModuleId id) {
  const ModuleId above = parent_of(graph, id);
  const std::string_view parent = above == kNone ? std::string_view{} : leaf_of(graph, graph.modules[above].path);
  const std::string_view leaf = leaf_of(graph, graph.modules[id].path);
  for (const RoleName& row : kRoleNames) {
    if (is_row_for(row, parent, leaf)) return row.role;
  }
  if (const DraftRole role = role_of_mlp(mlp_role_of(graph, id)); role != DraftRole::None) return role;
  const DraftRole role = role_of_head(role_of(leaf));
  return role == DraftRole::None && leaf == "output" ? DraftRole::Out : role;
}

bool is_down_projection(const ModelGraph& graph, ModuleId id) { return mlp_role_of(graph, id) == MlpRole::Down; }

DraftRole norm_role(std::string_view leaf) {
  return std::ranges::find(kHeadNorms, leaf) == std::end(kHeadNorms) ? DraftRole::None : DraftRole::HeadNorm;
}

DraftRole expert_role(std::string_view param) {
  return param == "gate_up_proj" ? DraftRole::ExpertsUp
         : param == "down_proj"  ? DraftRole::ExpertsDown
                                 : DraftRole::ExpertsOther;
}

bool is_activation_name(std::string_view leaf) {
  constexpr std::string_view names[] = {"act", "act_fn", "activation", "activation_fn"};
  return std::ranges::find(names, leaf) != std::end(names);
}

bool is_wrapper_module(std::string_view parent, std::string_view leaf) {
  return std::ranges::any_of(kWrappers, [&](const RoleName& row) { return is_row_for(row, parent, leaf); });
}

bool is_position_table(std::string_view leaf) {
  return leaf.find("position") != std::string_view::npos || leaf.find("token_type") != std::string_view::npos ||
         leaf == "wpe";
}

}  // namespace tpplan
