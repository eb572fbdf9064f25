#include "styles/style_table.h"

#include <algorithm>
#include <array>

#include "styles/derive_boundary.h"

namespace tpplan {
namespace {

constexpr uint8_t kTpplanSet = kTpplanStyles, kTorchSet = kTorchStyles, kTransformersSet = kTransformersStyles;

constexpr Placement kReplicated[] = {{}};
constexpr Placement kLast[] = {{.kind = PlacementKind::Shard, .dim = -1}};
constexpr Placement kSequence[] = {{.kind = PlacementKind::Shard, .dim = 1}};
constexpr Placement kPartial[] = {{.kind = PlacementKind::Partial}};

// Steps that several styles share.
constexpr BoundaryStep kTakeReplicated[] = {{StepKind::FromLocal, kReplicated}, {StepKind::Redistribute, kReplicated}};
constexpr BoundaryStep kTakeLast[] = {{StepKind::FromLocalSized, kLast}, {StepKind::Redistribute, kLast}};
constexpr BoundaryStep kShardLast[] = {{StepKind::FromLocal, kReplicated}, {StepKind::Redistribute, kLast}};
constexpr BoundaryStep kTakeSequence[] = {{StepKind::FromLocal, kSequence}, {StepKind::Redistribute, kSequence}};
constexpr BoundaryStep kTakeReplicatedLocally[] = {
    {StepKind::FromLocal, kReplicated}, {StepKind::Redistribute, kReplicated}, {StepKind::ToLocalPartial, {}}};
constexpr BoundaryStep kLeaveLast[] = {
    {StepKind::FromLocalSized, kLast}, {StepKind::Redistribute, kLast}, {StepKind::ToLocal, {}}};
constexpr BoundaryStep kGather[] = {
    {StepKind::FromLocalSized, kLast}, {StepKind::Redistribute, kReplicated}, {StepKind::ToLocal, {}}};
constexpr BoundaryStep kSum[] = {
    {StepKind::FromLocal, kPartial}, {StepKind::Redistribute, kReplicated}, {StepKind::ToLocal, {}}};
constexpr BoundaryStep kToLocal[] = {{StepKind::ToLocal, {}}};
constexpr BoundaryStep kSumGrad[] = {{StepKind::ToLocal, {}}, {StepKind::SumGradient, {}}};
constexpr BoundaryStep kSumValue[] = {{StepKind::SumValue, {}}};
constexpr BoundaryStep kDivide[] = {{StepKind::Divide, {}}};
constexpr BoundaryStep kSumTail[] = {{StepKind::SumTailGradient, {}}};
constexpr BoundaryStep kShardLocally[] = {
    {StepKind::FromLocal, kReplicated}, {StepKind::Redistribute, kLast}, {StepKind::ToLocal, {}}};

// Steps of torch.
constexpr BoundaryStep kTakeIds[] = {{StepKind::FromLocal, kLast}, {StepKind::Redistribute, kReplicated}};
constexpr BoundaryStep kTakeLastOfTorch[] = {{StepKind::FromLocal, kLast}, {StepKind::Redistribute, kLast}};
constexpr BoundaryStep kTakeSequenceOfTorch[] = {{StepKind::FromLocal, kSequence},
                                                 {StepKind::RedistributeOther, kSequence}};
constexpr BoundaryStep kLeaveLastOfTorch[] = {{StepKind::RedistributeOther, kLast}, {StepKind::ToLocal, {}}};
constexpr BoundaryStep kReplicateForTorch[] = {{StepKind::RedistributeOther, kReplicated}, {StepKind::ToLocal, {}}};
constexpr BoundaryStep kPrepare[] = {{StepKind::FromLocal, {}}, {StepKind::Redistribute, {}}};

constexpr CallRequirements kTakesTensor = {.takes_first = true};
constexpr CallRequirements kReturnsTensor = {.output_is_one = true};
constexpr CallRequirements kTensorToTensor = {.takes_first = true, .output_is_one = true};

// The condition is should_use_local_tensors of ColwiseParallel and RowwiseParallel.
constexpr InferencePath kFast = {};
constexpr InferencePath kFastGather = {.output = kGather};
constexpr InferencePath kFastSum = {.output = kSumValue, .hides_bias = true};
constexpr InferencePath kFastShardAndReduce = {.input = kShardLocally, .output = kSumValue, .hides_bias = true};

constexpr uint16_t kLinearOptions = kInputLayouts | kOutputLayouts | kUseLocalOutput;
constexpr uint16_t kInputOptions =
    kInputLayouts | kDesiredInputLayouts | kInputKwargLayouts | kDesiredInputKwargLayouts;
constexpr uint16_t kOutputOptions = kOutputLayouts | kDesiredOutputLayouts;

// torch 2.13: torch/distributed/tensor/parallel/style.py. transformers 5.23: distributed/tensor_parallel.py and
// expert_parallel.py (its registry of twenty names). In alphabetical order.
// clang-format off
constexpr StyleRow kRows[] = {
    {.name = "all_reduce", .sets = kTpplanSet | kTransformersSet, .counts_modules = true,
     .transformers = {.output = kSum, .call = kReturnsTensor}, .tpplan = {.runs_locally = true},
     .use = "a module whose result is a partial sum",
     .beside = "layers before it whose outputs are partial sums"},
    {.name = "colwise", .sets = kTpplanSet | kTorchSet | kTransformersSet, .shard_dim = "out", .at_one_dim = -1,
     .at_more_dims = -2, .modules = StyleModules::LinearOrEmbedding, .once_per_module = true,
     .options = kLinearOptions,
     .transformers = {.input = kTakeReplicated, .output = kLeaveLast, .call = kTensorToTensor, .fast = &kFast},
     .torch = {.input = kTakeReplicated, .output = kLeaveLastOfTorch},
     .torch_class = "ColwiseParallel",
     .use = "the first layer of a pair: q_proj, k_proj, v_proj, gate_proj, up_proj, fc1",
     .beside = "layers on local shards after it (heads, an activation), then rowwise"},
    {.name = "colwise_gather_output", .sets = kTpplanSet | kTransformersSet, .shard_dim = "out", .at_one_dim = -1,
     .at_more_dims = -2, .modules = StyleModules::LinearOrEmbedding,
     .transformers = {.input = kTakeReplicated, .output = kGather, .call = kTensorToTensor, .fast = &kFastGather},
     .use = "a layer whose full output is needed: lm_head",
     .beside = "any: its output is replicated"},
    {.name = "colwise_rep", .sets = kTpplanSet | kTransformersSet, .shard_dim = "out", .at_one_dim = -1, .at_more_dims = -2,
     .modules = StyleModules::LinearOrEmbedding,
     .transformers = {.input = kTakeReplicated, .output = kGather, .call = kTensorToTensor, .fast = &kFastGather},
     .use = "the older name of colwise_gather_output",
     .beside = "any: its output is replicated"},
    {.name = "embedding_colwise", .sets = kTpplanSet | kTransformersSet, .shard_dim = "out", .at_one_dim = kRejects,
     .at_more_dims = 1, .modules = StyleModules::EmbeddingOnly,
     .transformers = {.input = kTakeReplicated, .output = kGather, .call = kTensorToTensor},
     .use = "an embedding, sharded over the hidden dim",
     .beside = "any: its output is replicated"},
    {.name = "embedding_rowwise", .sets = kTpplanSet | kTransformersSet, .shard_dim = "in", .at_one_dim = 0, .at_more_dims = 0,
     .modules = StyleModules::EmbeddingOnly,
     .transformers = {.input = kTakeReplicated, .output = kSum, .call = kTensorToTensor},
     .use = "an embedding, sharded over the vocabulary",
     .beside = "any: its output is replicated"},
    {.name = "ep_dispatch_experts", .sets = kTpplanSet | kTransformersSet, .counts_modules = true, .is_for_experts = true,
     .transformers = {.call = kReturnsTensor, .local_params = true, .dispatches_experts = true},
     .tpplan = {.runs_locally = true, .dispatches_experts = true},
     .use = "a module of experts: each rank has some of the experts",
     .beside = "grouped_gemm on their weights"},
    {.name = "grouped_gemm", .sets = kTpplanSet | kTransformersSet, .shard_dim = "expert", .at_one_dim = 0, .at_more_dims = 0,
     .modules = StyleModules::WithDims, .is_for_experts = true,
     .use = "weights of experts, [experts, in, out]: each rank has some of the experts",
     .beside = "ep_dispatch_experts on their module"},
    {.name = "local_params", .sets = kTpplanSet | kTransformersSet, .counts_modules = true, .is_for_experts = true,
     .transformers = {.local_params = true}, .tpplan = {.runs_locally = true},
     .use = "a module whose parameters are used as local tensors",
     .beside = "the styles of the modules in it"},
    {.name = "mla_kv_a_proj", .sets = kTpplanSet | kTransformersSet, .sums_parameter_gradients = true,
     .transformers = {.output = kSumTail, .call = kReturnsTensor}, .tpplan = {.output = kSumTail, .runs_locally = true},
     .use = "kv_a_proj_with_mqa of multi-head latent attention: its weight is replicated",
     .beside = "kv_b_proj colwise, which uses its output"},
    {.name = "moe_identity_expert", .sets = kTpplanSet | kTransformersSet, .counts_modules = true, .is_for_experts = true,
     .transformers = {.input = kDivide, .call = kTakesTensor}, .tpplan = {.input = kDivide, .runs_locally = true},
     .use = "an expert that returns its input",
     .beside = "moe_tp_experts on the other experts"},
    {.name = "moe_tp_experts", .sets = kTpplanSet | kTransformersSet, .counts_modules = true, .is_for_experts = true,
     .transformers = {.input = kSumGrad, .second = kSumGrad, .output = kSumValue, .call = kTensorToTensor, .local_params = true},
     .tpplan = {.runs_locally = true},
     .use = "the module of experts: its input is all tokens, and its output is reduced",
     .beside = "packed_colwise and rowwise on the experts' weights"},
    {.name = "packed_colwise", .sets = kTpplanSet | kTransformersSet, .shard_dim = "out", .at_one_dim = -1, .at_more_dims = -2,
     .packed_segments = 2, .modules = StyleModules::WithDims,
     .transformers = {.input = kTakeReplicatedLocally, .call = kTakesTensor, .local_params = true},
     .tpplan = {.runs_locally = true},
     .use = "two layers in one parameter, gate and up: each half is sharded separately",
     .beside = "rowwise after it"},
    {.name = "packed_rowwise", .sets = kTpplanSet | kTransformersSet, .shard_dim = "in", .at_one_dim = kNoShardedDim,
     .at_more_dims = -1, .packed_segments = 2, .modules = StyleModules::WithDims,
     .tpplan = {.runs_locally = true},
     .use = "two layers in one parameter, sharded over their inputs",
     .beside = "a layer before it with a sharded output"},
    {.name = "prepare_module_input", .sets = kTpplanSet | kTorchSet, .touches_parameters = false, .use_local = false,
     .counts_modules = true, .options = kInputOptions | kUseLocalOutput,
     .torch = {.input = kPrepare},
     .torch_class = "PrepareModuleInput",
     .use = "a module whose inputs need another layout: attention after sequence_parallel",
     .beside = "colwise layers in it"},
    {.name = "prepare_module_input_output", .sets = kTpplanSet | kTorchSet, .touches_parameters = false,
     .counts_modules = true, .options = kInputOptions | kUseLocalInput | kOutputOptions | kUseLocalOutput,
     .torch = {.input = kPrepare, .output = kPrepare},
     .torch_class = "PrepareModuleInputOutput",
     .use = "a module whose inputs and outputs need other layouts",
     .beside = "layers in it"},
    {.name = "prepare_module_output", .sets = kTpplanSet | kTorchSet, .touches_parameters = false, .counts_modules = true,
     .options = kOutputOptions | kUseLocalOutput,
     .torch = {.output = kPrepare},
     .torch_class = "PrepareModuleOutput",
     .use = "a module whose outputs need another layout",
     .beside = "the layer after it"},
    {.name = "replicate", .sets = kTpplanSet | kTransformersSet,
     .use = "a module that is replicated on purpose: a router, a small projection",
     .beside = "any: it changes nothing"},
    {.name = "replicated_with_grad_allreduce", .sets = kTpplanSet | kTransformersSet, .sums_parameter_gradients = true,
     .transformers = {.sums_params = true},
     .use = "a norm of some of the heads (q_norm, k_norm): replicated, its gradient is reduced",
     .beside = "colwise before it"},
    {.name = "rowwise", .sets = kTpplanSet | kTorchSet | kTransformersSet, .shard_dim = "in", .at_one_dim = -1,
     .at_more_dims = -1, .is_bias_replicated = true, .modules = StyleModules::LinearOrEmbedding, .once_per_module = true,
     .options = kLinearOptions,
     .transformers = {.input = kTakeLast, .output = kSum, .call = kTensorToTensor, .fast = &kFastSum},
     .torch = {.input = kTakeLastOfTorch, .ids = kTakeIds, .output = kReplicateForTorch},
     .torch_class = "RowwiseParallel",
     .use = "the second layer of a pair: o_proj, down_proj, fc2; an embedding, sharded over the vocabulary",
     .beside = "colwise before it; its output is replicated"},
    {.name = "rowwise_rep", .sets = kTpplanSet | kTransformersSet, .shard_dim = "in", .at_one_dim = -1, .at_more_dims = -1,
     .is_bias_replicated = true, .modules = StyleModules::LinearOrEmbedding,
     .transformers = {.input = kShardLast, .output = kSum, .call = kTensorToTensor, .fast = &kFastShardAndReduce},
     .use = "the older name of rowwise_split_input",
     .beside = "any: it shards its input"},
    {.name = "rowwise_split_input", .sets = kTpplanSet | kTransformersSet, .shard_dim = "in", .at_one_dim = -1,
     .at_more_dims = -1, .is_bias_replicated = true, .modules = StyleModules::LinearOrEmbedding,
     .transformers = {.input = kShardLast, .output = kSum, .call = kTensorToTensor, .fast = &kFastShardAndReduce},
     .use = "a rowwise layer whose input is replicated",
     .beside = "any: it shards its input"},
    {.name = "sequence_parallel", .sets = kTpplanSet | kTorchSet, .use_local = false, .sums_parameter_gradients = true,
     .once_per_module = true, .options = kSequenceDim | kUseLocalOutput,
     .torch = {.input = kTakeSequenceOfTorch, .output = kToLocal},
     .torch_class = "SequenceParallel",
     .use = "a norm or dropout between layers whose outputs are sharded over the sequence",
     .beside = "rowwise before it with `output_layouts: Shard(1)`; prepare_module_input after it"},
    {.name = "sequence_parallel", .sets = kTransformersSet, .sums_parameter_gradients = true, .wraps_parameters = true,
     .transformers = {.input = kTakeSequence, .output = kToLocal, .call = kTakesTensor}},
};
// clang-format on

constexpr auto kStyles = [] {
  std::array<StyleRow, std::size(kRows)> styles;
  std::transform(std::begin(kRows), std::end(kRows), styles.begin(), with_boundary);
  return styles;
}();

}  // namespace

std::span<const StyleRow> style_table() { return kStyles; }

const StyleRow* find_style(std::string_view name, StyleSet set) {
  for (const StyleRow& row : kStyles) {
    if (row.name == name && (row.sets & set) != 0) return &row;
  }
  return nullptr;
}

bool is_style(std::string_view name) {
  return std::any_of(kStyles.begin(), kStyles.end(), [name](const StyleRow& row) { return row.name == name; });
}

}  // namespace tpplan
