#include "suggest/unit_strategies.h"

#include <algorithm>

namespace tpplan {
namespace {

using enum DraftRole;

// Megatron's attention: each rank has some of the heads, and their outputs are all-reduced once.
constexpr RoleStyle kByHeads[] = {
    {Query, "colwise"},      {Key, "colwise"},       {Value, "colwise"},    {Fused, "colwise"},
    {FromLatent, "colwise"}, {HeadTable, "colwise"}, {Latent, "replicate"}, {LatentKv, "mla_kv_a_proj"},
    {Out, "rowwise"}};
constexpr RoleStyle kByHeadsNormed[] = {{Query, "colwise"},
                                        {Key, "colwise"},
                                        {Value, "colwise"},
                                        {Fused, "colwise"},
                                        {FromLatent, "colwise"},
                                        {HeadTable, "colwise"},
                                        {HeadNorm, "replicated_with_grad_allreduce"},
                                        {FullNorm, "replicated_with_grad_allreduce"},
                                        {Latent, "replicate"},
                                        {LatentKv, "mla_kv_a_proj"},
                                        {Out, "rowwise"}};
constexpr RoleStyle kByHeadsAll[] = {{Query, "colwise"},
                                     {Key, "colwise"},
                                     {Value, "colwise"},
                                     {Fused, "colwise"},
                                     {FromLatent, "colwise"},
                                     {HeadTable, "colwise"},
                                     {HeadParam, "colwise"},
                                     {HeadsModule, "local_params"},
                                     {HeadNorm, "replicated_with_grad_allreduce"},
                                     {FullNorm, "replicated_with_grad_allreduce"},
                                     {Latent, "replicate"},
                                     {LatentKv, "mla_kv_a_proj"},
                                     {Out, "rowwise"}};
constexpr RoleStyle kReplicatedKv[] = {{Query, "colwise"},
                                       {Key, "replicated_with_grad_allreduce"},
                                       {Value, "replicated_with_grad_allreduce"},
                                       {HeadTable, "colwise"},
                                       {Out, "rowwise"}};
constexpr RoleStyle kGatheredHeads[] = {{Query, "colwise_gather_output"},      {Key, "colwise_gather_output"},
                                        {Value, "colwise_gather_output"},      {Fused, "colwise_gather_output"},
                                        {Latent, "colwise_gather_output"},     {LatentKv, "replicate"},
                                        {FromLatent, "colwise_gather_output"}, {Out, "rowwise_split_input"}};
constexpr RoleStyle kGatheredQueries[] = {
    {Query, "colwise_gather_output"}, {Key, "replicate"}, {Value, "replicate"}, {Out, "rowwise_split_input"}};
constexpr RoleStyle kOutOnly[] = {{Out, "rowwise_split_input"}};
constexpr RoleStyle kHidden[] = {{Up, "colwise"}, {FusedUp, "colwise"}, {Down, "rowwise"}};
constexpr RoleStyle kHiddenPacked[] = {{Up, "colwise"}, {FusedUp, "packed_colwise"}, {Down, "rowwise"}};
constexpr RoleStyle kHiddenSummed[] = {
    {Up, "colwise"}, {FusedUp, "colwise"}, {Activation, "replicated_with_grad_allreduce"}, {Down, "rowwise"}};
constexpr RoleStyle kGatheredHidden[] = {
    {Up, "colwise_gather_output"}, {FusedUp, "colwise_gather_output"}, {Down, "rowwise_split_input"}};
constexpr RoleStyle kExperts[] = {
    {ExpertsUp, "packed_colwise"}, {ExpertsDown, "rowwise"}, {DraftRole::ExpertsModule, "moe_tp_experts"}};
constexpr RoleStyle kSomeExperts[] = {{ExpertsUp, "grouped_gemm"},
                                      {ExpertsDown, "grouped_gemm"},
                                      {ExpertsOther, "grouped_gemm"},
                                      {DraftRole::ExpertsModule, "ep_dispatch_experts"}};
constexpr RoleStyle kByVocabulary[] = {{Tokens, "embedding_rowwise"}, {Head, "colwise_gather_output"}};
constexpr RoleStyle kByHidden[] = {{Tokens, "embedding_colwise"}, {Head, "rowwise_split_input"}};
constexpr RoleStyle kHeadByVocabulary[] = {{Head, "colwise_gather_output"}};
constexpr RoleStyle kHeadByHidden[] = {{Head, "rowwise_split_input"}};
constexpr RoleStyle kTableByRows[] = {{Table, "embedding_rowwise"}};
constexpr RoleStyle kTableByColumns[] = {{Table, "embedding_colwise"}};
constexpr RoleStyle kSingle[] = {{Single, "colwise_gather_output"}};
constexpr RoleStyle kSingleByInput[] = {{Single, "rowwise_split_input"}};

constexpr std::string_view kHeadsText = "Attention: each rank has some of the heads, and the output of o is reduced.";
constexpr UnitStrategy kStrategies[] = {
    {UnitKind::Vocabulary, "The vocabulary: each rank has the embeddings of some of the tokens.", kByVocabulary, false,
     true},
    {UnitKind::Vocabulary, "The vocabulary: each rank has a shard of every embedding.", kByHidden},
    {UnitKind::Head, "Scores: each rank computes the logits of some of the tokens, and they are gathered.",
     kHeadByVocabulary, false, true},
    {UnitKind::Head, "Scores: each rank has a shard of every token's row.", kHeadByHidden},
    {UnitKind::Table, "An embedding: each rank has some of its rows.", kTableByRows, false, true},
    {UnitKind::Table, "An embedding: each rank has a shard of every row.", kTableByColumns},
    {UnitKind::Attention, kHeadsText, kByHeads, true, true},
    {UnitKind::Attention,
     "Attention: each rank has some of the heads, and the output of o is reduced. Norms get some of the heads: their "
     "gradients are reduced.",
     kByHeadsNormed, true, true},
    {UnitKind::Attention,
     "Attention: each rank has some of the query heads; keys and values are replicated, and their gradients are "
     "reduced.",
     kReplicatedKv, true},
    {UnitKind::Attention,
     "Attention: each rank has some of the heads and the parameters of these heads, and the output of o is reduced.",
     kByHeadsAll, true, true, HeadParam},
    {UnitKind::Attention,
     "Attention: weights are sharded and their outputs gathered, so every rank computes all heads.", kGatheredHeads},
    {UnitKind::Attention,
     "Attention: q and o are sharded and q's outputs gathered, so every rank computes all heads; k and v are "
     "replicated.",
     kGatheredQueries, false, false, Query},
    {UnitKind::Attention, "Attention: only o is sharded, and its inputs are split; every rank computes all heads.",
     kOutOnly, false, false, Out},
    {UnitKind::Mlp, "MLP: each rank has a shard of the hidden layer, and the output of the last layer is reduced.",
     kHidden, false, true, Down},
    {UnitKind::Mlp, "MLP: each rank has a shard of the hidden layer, of gate and up separately.", kHiddenPacked, false,
     true, Down},
    {UnitKind::Mlp,
     "MLP: each rank has a shard of the hidden layer, and the output of the last layer is reduced. So are gradients of "
     "the activation.",
     kHiddenSummed, false, true, Down},
    {UnitKind::Mlp,
     "MLP: weights are sharded and their outputs gathered, so every rank computes the full hidden layer.",
     kGatheredHidden},
    {UnitKind::Experts, "Experts: each rank has a shard of every expert, and their outputs are reduced.", kExperts,
     false, true},
    {UnitKind::Experts, "Experts: each rank has some of the experts.", kSomeExperts, false, true},
    {UnitKind::Single, "A single layer: its outputs are gathered.", kSingle, false, true},
    {UnitKind::Single, "A single layer: its inputs are split, and its outputs are reduced.", kSingleByInput, false,
     true},
};

}  // namespace

std::span<const UnitStrategy> unit_strategies() { return kStrategies; }

bool applies_to_unit(const UnitStrategy& strategy, const DraftUnit& unit) {
  return strategy.kind == unit.kind &&
         (strategy.needs == DraftRole::None ||
          std::ranges::find(unit.layers, strategy.needs, &DraftLayer::role) != unit.layers.end());
}

std::string_view style_of(const UnitStrategy& strategy, DraftRole role) {
  const auto row = std::ranges::find(strategy.styles, role, &RoleStyle::role);
  return row == strategy.styles.end() ? std::string_view{} : row->style;
}

}  // namespace tpplan
