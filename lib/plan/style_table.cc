#include "plan/style_table.h"

#include <algorithm>
#include <utility>

namespace tpplan {
namespace {

constexpr uint8_t kOwn = kOwnStyles, kTorchWay = kTorchStyles, kTransformersWay = kTransformersStyles;

constexpr Placement kReplicate{};
constexpr Placement kLast{.kind = PlacementKind::Shard, .dim = -1};
constexpr Placement kSequence{.kind = PlacementKind::Shard, .dim = 1};
constexpr Placement kPartial{.kind = PlacementKind::Partial};

constexpr BoundaryRow kKept{true, kReplicate, kReplicate, false};
constexpr BoundaryRow kSummedBack{true, kReplicate, kReplicate, true};
constexpr BoundaryRow kSummed{true, kPartial, kReplicate, false};
constexpr BoundaryRow kGathered{true, kLast, kReplicate, false};
constexpr BoundaryRow kStaysCut{true, kLast, kLast, false};
constexpr BoundaryRow kCutOnEntry{true, kReplicate, kLast, false};
constexpr BoundaryRow kSequenceKept{true, kSequence, kSequence, false};
constexpr BoundaryRow kAsGiven{true, kReplicate, kReplicate, false};

constexpr uint16_t kLinearOptions = kInputLayouts | kOutputLayouts | kUseLocalOutput;
constexpr uint16_t kInputOptions =
    kInputLayouts | kDesiredInputLayouts | kInputKwargLayouts | kDesiredInputKwargLayouts;
constexpr uint16_t kOutputOptions = kOutputLayouts | kDesiredOutputLayouts;

// torch 2.13: torch/distributed/tensor/parallel/style.py. transformers 5.23: distributed/tensor_parallel.py and
// expert_parallel.py (its registry of twenty names). In alphabetical order.
// clang-format off
constexpr StyleRow kStyles[] = {
    {.name = "all_reduce", .sets = kOwn | kTransformersWay, .output = kSummed, .counts_modules = true},
    {.name = "colwise", .sets = kOwn | kTorchWay | kTransformersWay, .cut_dim = "out", .at_one_dim = -1, .at_more_dims = -2,
     .modules = StyleModules::LinearOrEmbedding, .input = kSummedBack, .output = kStaysCut, .once_per_module = true,
     .options = kLinearOptions},
    {.name = "colwise_gather_output", .sets = kOwn | kTransformersWay, .cut_dim = "out", .at_one_dim = -1, .at_more_dims = -2,
     .modules = StyleModules::LinearOrEmbedding, .input = kSummedBack, .output = kGathered},
    {.name = "colwise_rep", .sets = kOwn | kTransformersWay, .cut_dim = "out", .at_one_dim = -1, .at_more_dims = -2,
     .modules = StyleModules::LinearOrEmbedding, .input = kSummedBack, .output = kGathered},
    {.name = "embedding_colwise", .sets = kOwn | kTransformersWay, .cut_dim = "out", .at_one_dim = kRefuses, .at_more_dims = 1,
     .modules = StyleModules::EmbeddingOnly, .input = kKept, .output = kGathered},
    {.name = "embedding_rowwise", .sets = kOwn | kTransformersWay, .cut_dim = "in", .at_one_dim = 0, .at_more_dims = 0,
     .modules = StyleModules::EmbeddingOnly, .input = kKept, .output = kSummed},
    {.name = "ep_dispatch_experts", .sets = kOwn | kTransformersWay, .counts_modules = true, .is_for_experts = true},
    {.name = "grouped_gemm", .sets = kOwn | kTransformersWay, .cut_dim = "expert", .at_one_dim = 0, .at_more_dims = 0,
     .modules = StyleModules::WithDims, .is_for_experts = true},
    {.name = "local_params", .sets = kOwn | kTransformersWay, .counts_modules = true, .is_for_experts = true},
    {.name = "mla_kv_a_proj", .sets = kOwn | kTransformersWay, .sums_parameter_gradients = true},
    {.name = "moe_identity_expert", .sets = kOwn | kTransformersWay, .counts_modules = true, .is_for_experts = true},
    {.name = "moe_tp_experts", .sets = kOwn | kTransformersWay, .input = kSummedBack, .output = kSummed,
     .second_input = 2, .counts_modules = true, .is_for_experts = true},
    {.name = "packed_colwise", .sets = kOwn | kTransformersWay, .cut_dim = "out", .at_one_dim = -1, .at_more_dims = -2,
     .packed_segments = 2, .modules = StyleModules::WithDims, .input = kSummedBack},
    {.name = "packed_rowwise", .sets = kOwn | kTransformersWay, .cut_dim = "in", .at_one_dim = kCutsNothing, .at_more_dims = -1,
     .packed_segments = 2, .modules = StyleModules::WithDims},
    {.name = "prepare_module_input", .sets = kOwn | kTorchWay, .touches_parameters = false, .input = kAsGiven, .use_local = false,
     .counts_modules = true, .options = kInputOptions | kUseLocalOutput},
    {.name = "prepare_module_input_output", .sets = kOwn | kTorchWay, .touches_parameters = false, .input = kAsGiven,
     .output = kAsGiven, .counts_modules = true, .options = kInputOptions | kUseLocalInput | kOutputOptions | kUseLocalOutput},
    {.name = "prepare_module_output", .sets = kOwn | kTorchWay, .touches_parameters = false, .output = kAsGiven,
     .counts_modules = true, .options = kOutputOptions | kUseLocalOutput},
    {.name = "replicate", .sets = kOwn | kTransformersWay},
    {.name = "replicated_with_grad_allreduce", .sets = kOwn | kTransformersWay, .sums_parameter_gradients = true},
    {.name = "rowwise", .sets = kOwn | kTorchWay | kTransformersWay, .cut_dim = "in", .at_one_dim = -1, .at_more_dims = -1,
     .bias_stays_whole = true, .modules = StyleModules::LinearOrEmbedding, .input = kStaysCut, .output = kSummed,
     .once_per_module = true, .options = kLinearOptions},
    {.name = "rowwise_rep", .sets = kOwn | kTransformersWay, .cut_dim = "in", .at_one_dim = -1, .at_more_dims = -1,
     .bias_stays_whole = true, .modules = StyleModules::LinearOrEmbedding, .input = kCutOnEntry, .output = kSummed},
    {.name = "rowwise_split_input", .sets = kOwn | kTransformersWay, .cut_dim = "in", .at_one_dim = -1, .at_more_dims = -1,
     .bias_stays_whole = true, .modules = StyleModules::LinearOrEmbedding, .input = kCutOnEntry, .output = kSummed},
    {.name = "sequence_parallel", .sets = kOwn | kTorchWay, .input = kSequenceKept, .output = kSequenceKept, .use_local = false,
     .sums_parameter_gradients = true, .once_per_module = true, .options = kSequenceDim | kUseLocalOutput},
    {.name = "sequence_parallel", .sets = kTransformersWay, .input = kSequenceKept, .output = kSequenceKept,
     .sums_parameter_gradients = true, .wraps_parameters = true},
};
// clang-format on

constexpr std::pair<std::string_view, StyleOption> kOptions[] = {
    {"input_layouts", kInputLayouts},
    {"desired_input_layouts", kDesiredInputLayouts},
    {"input_kwarg_layouts", kInputKwargLayouts},
    {"desired_input_kwarg_layouts", kDesiredInputKwargLayouts},
    {"output_layouts", kOutputLayouts},
    {"desired_output_layouts", kDesiredOutputLayouts},
    {"use_local_input", kUseLocalInput},
    {"use_local_output", kUseLocalOutput},
    {"sequence_dim", kSequenceDim},
    {"forward_dtype", kForwardDtype},
    {"backward_dtype", kBackwardDtype},
};

}  // namespace

std::span<const StyleRow> style_table() { return kStyles; }

const StyleRow* find_style(std::string_view name, StyleSet set) {
  for (const StyleRow& row : kStyles) {
    if (row.name == name && (row.sets & set) != 0) return &row;
  }
  return nullptr;
}

bool is_style(std::string_view name) {
  return std::any_of(std::begin(kStyles), std::end(kStyles), [name](const StyleRow& row) { return row.name == name; });
}

std::string_view option_name(StyleOption option) {
  for (const auto& [name, value] : kOptions) {
    if (value == option) return name;
  }
  return "";
}

uint16_t find_option(std::string_view name) {
  for (const auto& [known, value] : kOptions) {
    if (known == name) return value;
  }
  return 0;
}

}  // namespace tpplan
