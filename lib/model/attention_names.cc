#include "model/attention_names.h"

#include <algorithm>
#include <iterator>

namespace tpplan {
namespace {

// Names of attention projections in common model families. Checks ignore projections with other names.
constexpr AttentionName kRoles[] = {
    {"q_proj", HeadRole::Query, "k_proj", "v_proj"},
    {"query", HeadRole::Query, "key", "value"},
    {"wq", HeadRole::Query, "wk", "wv"},
    {"q", HeadRole::Query, "k", "v"},
    {"q_lin", HeadRole::Query, "k_lin", "v_lin"},
    {"to_q", HeadRole::Query, "to_k", "to_v"},
    {"query_proj", HeadRole::Query, "key_proj", "value_proj"},
    {"query_dense", HeadRole::Query, "key_dense", "value_dense"},
    {"k_proj", HeadRole::Key},
    {"v_proj", HeadRole::Value},
    {"key", HeadRole::Key},
    {"value", HeadRole::Value},
    {"wk", HeadRole::Key},
    {"wv", HeadRole::Value},
    {"k", HeadRole::Key},
    {"v", HeadRole::Value},
    {"k_lin", HeadRole::Key},
    {"v_lin", HeadRole::Value},
    {"to_k", HeadRole::Key},
    {"to_v", HeadRole::Value},
    {"key_proj", HeadRole::Key},
    {"value_proj", HeadRole::Value},
    {"key_dense", HeadRole::Key},
    {"value_dense", HeadRole::Value},
    {"qkv_proj", HeadRole::FusedInBlocks},
    {"Wqkv", HeadRole::FusedInBlocks},
    {"c_attn", HeadRole::FusedInBlocks},
    {"qkv", HeadRole::FusedInBlocks},
    {"wqkv", HeadRole::FusedInBlocks},
    {"to_qkv", HeadRole::FusedInBlocks},
    {"W_pack", HeadRole::FusedInBlocks},
    {"query_key_value", HeadRole::FusedByHead},
    {"linear_qkv", HeadRole::FusedByHead},
    {"o_proj", HeadRole::Output},
    {"out_proj", HeadRole::Output},
    {"wo", HeadRole::Output},
    {"o", HeadRole::Output},
    {"out_lin", HeadRole::Output},
    {"to_out", HeadRole::Output},
    {"dense", HeadRole::Output},
    {"c_proj", HeadRole::Output},
    {"proj", HeadRole::Output},
    {"linear_proj", HeadRole::Output},
    {"output_proj", HeadRole::Output},
    {"output_dense", HeadRole::Output},
};

}  // namespace

std::span<const AttentionName> attention_names() { return kRoles; }

HeadRole role_of(std::string_view leaf) {
  const auto* row = std::ranges::find(kRoles, leaf, &AttentionName::leaf);
  return row == std::end(kRoles) ? HeadRole::None : row->role;
}

}  // namespace tpplan
