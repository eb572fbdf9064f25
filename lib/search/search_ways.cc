#include "search/search_ways.h"

namespace tpplan {
namespace {

using enum DraftRole;
using enum ResidualState;
using enum WayPlace;

constexpr std::string_view kScatteredRows = "{style: rowwise, output_layouts: Shard(1), use_local_output: false}";
constexpr std::string_view kFromSequence = "{style: colwise, input_layouts: Shard(1)}";
constexpr std::string_view kAround =
    "{style: prepare_module_input_output, @in(Shard(1)), @want(Replicate), @local(true), @out(Replicate), "
    "@give(Shard(1)), use_local_output: false}";
constexpr std::string_view kGather = "{style: prepare_module_input, @in(Shard(1)), @want(Replicate)}";
constexpr std::string_view kOnce = "{style: prepare_module_input, @in(Replicate), @want(Replicate)}";

constexpr WayRule kHeadsOnce[] = {{Unit, None, kOnce},
                                  {Layer, Query, "colwise"},
                                  {Layer, Key, "colwise"},
                                  {Layer, Value, "colwise"},
                                  {Layer, Fused, "colwise"},
                                  {Layer, HeadTable, "colwise"},
                                  {Layer, HeadNorm, "replicated_with_grad_allreduce"},
                                  {Layer, Out, "rowwise"}};
constexpr WayRule kHeadsBySequence[] = {{Unit, None, kGather},
                                        {Layer, Query, "colwise"},
                                        {Layer, Key, "colwise"},
                                        {Layer, Value, "colwise"},
                                        {Layer, Fused, "colwise"},
                                        {Layer, HeadTable, "colwise"},
                                        {Layer, HeadNorm, "replicated_with_grad_allreduce"},
                                        {Layer, Out, kScatteredRows}};
constexpr WayRule kHeadsGatheredEach[] = {{Layer, Query, kFromSequence},
                                          {Layer, Key, kFromSequence},
                                          {Layer, Value, kFromSequence},
                                          {Layer, Fused, kFromSequence},
                                          {Layer, HeadNorm, "replicated_with_grad_allreduce"},
                                          {Layer, Out, kScatteredRows}};
constexpr WayRule kWholeBySequence[] = {{Unit, None, kAround}};
constexpr WayRule kHiddenOnce[] = {
    {Unit, None, kOnce}, {Layer, Up, "colwise"}, {Layer, FusedUp, "colwise"}, {Layer, Down, "rowwise"}};
constexpr WayRule kDownAlone[] = {{Layer, Down, "rowwise_split_input"}};
constexpr WayRule kHiddenBySequence[] = {
    {Unit, None,
     "{style: prepare_module_input_output, @in(Shard(1)), @want(Replicate), @out(Partial), @give(Shard(1)), "
     "use_local_output: false}"},
    {Layer, Up, "colwise"},
    {Layer, FusedUp, "colwise"},
    {Layer, Down, "{style: rowwise, output_layouts: Partial, use_local_output: false}"}};
constexpr WayRule kHiddenGatheredEach[] = {
    {Layer, Up, kFromSequence}, {Layer, FusedUp, kFromSequence}, {Layer, Down, kScatteredRows}};
constexpr WayRule kTokens[] = {
    {Layer, Up, "sequence_parallel"}, {Layer, FusedUp, "sequence_parallel"}, {Layer, Down, "sequence_parallel"}};
constexpr WayRule kExpertsHidden[] = {{Unit, None, kAround},
                                      {Layer, ExpertsUp, "packed_colwise"},
                                      {Layer, ExpertsDown, "rowwise"},
                                      {Layer, ExpertsModule, "moe_tp_experts"}};
constexpr WayRule kSomeExperts[] = {{Unit, None, kAround},
                                    {Layer, ExpertsUp, "grouped_gemm"},
                                    {Layer, ExpertsDown, "grouped_gemm"},
                                    {Layer, ExpertsOther, "grouped_gemm"},
                                    {Layer, ExpertsModule, "ep_dispatch_experts"}};
constexpr WayRule kTableRows[] = {{Layer, DraftRole::Tokens, "embedding_rowwise"}};
constexpr WayRule kTableColumns[] = {{Layer, DraftRole::Tokens, "embedding_colwise"}};
constexpr WayRule kTableRowsBySequence[] = {
    {Layer, DraftRole::Tokens,
     "{style: rowwise, input_layouts: Replicate, output_layouts: Shard(1), use_local_output: false}"}};
constexpr WayRule kTableColumnsBySequence[] = {
    {Layer, DraftRole::Tokens,
     "{style: colwise, input_layouts: Replicate, output_layouts: Shard(1), use_local_output: false}"}};
constexpr WayRule kTableSliced[] = {
    {Layer, DraftRole::Tokens,
     "{style: prepare_module_output, output_layouts: Replicate, desired_output_layouts: Shard(1), use_local_output: "
     "false}"},
    {Weight, DraftRole::Tokens, "replicate"}};
constexpr WayRule kHeadGathered[] = {{Layer, DraftRole::Head, "colwise_gather_output"}};
constexpr WayRule kHeadRows[] = {{Layer, DraftRole::Head, "rowwise_split_input"}};
constexpr WayRule kHeadLoss[] = {
    {Layer, DraftRole::Head, "{style: colwise, output_layouts: Shard(-1), use_local_output: false}"}};
constexpr WayRule kHeadBySequence[] = {
    {Norms, None, "sequence_parallel"},
    {Layer, DraftRole::Head, "{style: colwise, input_layouts: Shard(1), output_layouts: Replicate}"}};
constexpr WayRule kHeadRowsBySequence[] = {
    {Norms, None, "sequence_parallel"},
    {Layer, DraftRole::Head, "{style: rowwise, input_layouts: Shard(1), output_layouts: Replicate}"}};
constexpr WayRule kHeadLossBySequence[] = {
    {Norms, None, "sequence_parallel"},
    {Layer, DraftRole::Head,
     "{style: colwise, input_layouts: Shard(1), output_layouts: Shard(-1), use_local_output: false}"}};

constexpr SearchWay kWays[] = {
    {UnitKind::Vocabulary, Replicated, "The vocabulary: each rank has the embeddings of some of the tokens.",
     kTableRows},
    {UnitKind::Vocabulary, Replicated, "The vocabulary: each rank has a shard of every embedding.", kTableColumns},
    {UnitKind::Vocabulary, BySequence,
     "The vocabulary: each rank has the embeddings of some of the tokens, and gets its part of the sequence.",
     kTableRowsBySequence},
    {UnitKind::Vocabulary, BySequence,
     "The vocabulary: each rank has a shard of every embedding, and gets its part of the sequence.",
     kTableColumnsBySequence},
    {UnitKind::Vocabulary, BySequence, "The vocabulary: replicated; each rank keeps its part of the sequence.",
     kTableSliced},
    {UnitKind::Head, Replicated, "Scores: each rank computes the logits of some of the tokens, and they are gathered.",
     kHeadGathered},
    {UnitKind::Head, Replicated, "Scores: each rank has a shard of every token's row.", kHeadRows},
    {UnitKind::Head, Replicated, "Scores: each rank computes the logits of some of the tokens, and the loss on these.",
     kHeadLoss, true},
    {UnitKind::Head, BySequence,
     "Scores: the sequence is gathered, and so are the logits of some of the tokens that each rank computes.",
     kHeadBySequence},
    {UnitKind::Head, BySequence, "Scores: the sequence is exchanged for a shard of every token's row.",
     kHeadRowsBySequence},
    {UnitKind::Head, BySequence,
     "Scores: the sequence is gathered; each rank computes the logits of some of the tokens, and the loss on these.",
     kHeadLossBySequence, true},
    {UnitKind::Attention, Replicated,
     "Attention: each rank has some of the heads, and the output of o is reduced. The gradients of q, k and v are "
     "reduced together.",
     kHeadsOnce},
    {UnitKind::Attention, BySequence,
     "Attention: the sequence is gathered once, each rank has some of the heads, and the output of o is scattered.",
     kHeadsBySequence},
    {UnitKind::Attention, BySequence,
     "Attention: q, k and v each gather the sequence, each rank has some of the heads, and the output of o is "
     "scattered.",
     kHeadsGatheredEach},
    {UnitKind::Attention, BySequence,
     "Attention: the sequence is gathered, every rank computes all heads and keeps its part of the sequence.",
     kWholeBySequence},
    {UnitKind::Mlp, Replicated,
     "MLP: each rank has a shard of the hidden layer, and the output of the last layer is reduced. The gradients of "
     "its inputs are reduced together.",
     kHiddenOnce},
    {UnitKind::Mlp, Replicated, "MLP: only the last layer is sharded, and its inputs are split.", kDownAlone},
    {UnitKind::Mlp, BySequence,
     "MLP: the sequence is gathered once, each rank has a shard of the hidden layer, and the output is scattered.",
     kHiddenBySequence},
    {UnitKind::Mlp, BySequence,
     "MLP: each projection gathers the sequence, each rank has a shard of the hidden layer, and the output is "
     "scattered.",
     kHiddenGatheredEach},
    {UnitKind::Mlp, BySequence, "MLP: replicated; each rank computes its part of the sequence.", kTokens},
    {UnitKind::Mlp, BySequence, "MLP: the sequence is gathered, every rank computes all of it and keeps its part.",
     kWholeBySequence},
    {UnitKind::Experts, BySequence,
     "Experts: the sequence is gathered, each rank has a shard of every expert, and their outputs are reduced.",
     kExpertsHidden},
    {UnitKind::Experts, BySequence, "Experts: the sequence is gathered, and each rank has some of the experts.",
     kSomeExperts},
    {UnitKind::Experts, BySequence,
     "Experts: the sequence is gathered, every rank computes all experts and keeps its part.", kWholeBySequence},
};

}  // namespace

std::span<const SearchWay> search_ways() { return kWays; }

}  // namespace tpplan
