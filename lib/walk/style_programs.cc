// The styles of transformers 5.23 as rows: what the hooks of each class in distributed/tensor_parallel.py do to the
// module's first (third) argument and to its result. Runs of steps have names, because several styles share them.
#include "walk/style_programs.h"

#include <algorithm>
#include <iterator>

namespace tpplan {
namespace {

constexpr Placement kWhole[] = {{}};
constexpr Placement kLast[] = {{.kind = PlacementKind::Shard, .dim = -1}};
constexpr Placement kSequence[] = {{.kind = PlacementKind::Shard, .dim = 1}};
constexpr Placement kOpen[] = {{.kind = PlacementKind::Partial}};

constexpr BoundaryStep kTakeWhole[] = {{StepKind::FromLocal, kWhole}, {StepKind::Redistribute, kWhole}};
constexpr BoundaryStep kTakeLast[] = {{StepKind::FromLocalSized, kLast}, {StepKind::Redistribute, kLast}};
constexpr BoundaryStep kCutLast[] = {{StepKind::FromLocal, kWhole}, {StepKind::Redistribute, kLast}};
constexpr BoundaryStep kTakeSequence[] = {{StepKind::FromLocal, kSequence}, {StepKind::Redistribute, kSequence}};
constexpr BoundaryStep kTakeWholeLocally[] = {
    {StepKind::FromLocal, kWhole}, {StepKind::Redistribute, kWhole}, {StepKind::ToLocalPartial, {}}};
constexpr BoundaryStep kLeaveLast[] = {
    {StepKind::FromLocalSized, kLast}, {StepKind::Redistribute, kLast}, {StepKind::ToLocal, {}}};
constexpr BoundaryStep kGather[] = {
    {StepKind::FromLocalSized, kLast}, {StepKind::Redistribute, kWhole}, {StepKind::ToLocal, {}}};
constexpr BoundaryStep kSum[] = {
    {StepKind::FromLocal, kOpen}, {StepKind::Redistribute, kWhole}, {StepKind::ToLocal, {}}};
constexpr BoundaryStep kToLocal[] = {{StepKind::ToLocal, {}}};
constexpr BoundaryStep kSumGrad[] = {{StepKind::ToLocal, {}}, {StepKind::SumGradient, {}}};
constexpr BoundaryStep kSumValue[] = {{StepKind::SumValue, {}}};
constexpr BoundaryStep kDivide[] = {{StepKind::Divide, {}}};
constexpr BoundaryStep kSumTail[] = {{StepKind::SumTailGradient, {}}};
constexpr BoundaryStep kCutLocally[] = {
    {StepKind::FromLocal, kWhole}, {StepKind::Redistribute, kLast}, {StepKind::ToLocal, {}}};

constexpr CallForm kTakesTensor = {.takes_first = true};
constexpr CallForm kGivesTensor = {.output_is_one = true};
constexpr CallForm kTensorToTensor = {.takes_first = true, .output_is_one = true};

// should_use_local_tensors of ColwiseParallel and RowwiseParallel.
constexpr FastPath kFast = {};
constexpr FastPath kFastGather = {.output = kGather};
constexpr FastPath kFastSum = {.output = kSumValue, .hides_bias = true};
constexpr FastPath kFastCutAndSum = {.input = kCutLocally, .output = kSumValue, .hides_bias = true};

// clang-format off
constexpr StyleProgram kPrograms[] = {
    {.style = "all_reduce", .output = kSum, .call = kGivesTensor},
    {.style = "colwise", .input = kTakeWhole, .output = kLeaveLast, .call = kTensorToTensor, .fast = &kFast},
    {.style = "colwise_gather_output", .input = kTakeWhole, .output = kGather, .call = kTensorToTensor, .fast = &kFastGather},
    {.style = "colwise_rep", .input = kTakeWhole, .output = kGather, .call = kTensorToTensor, .fast = &kFastGather},
    {.style = "embedding_colwise", .input = kTakeWhole, .output = kGather, .call = kTensorToTensor},
    {.style = "embedding_rowwise", .input = kTakeWhole, .output = kSum, .call = kTensorToTensor},
    {.style = "ep_dispatch_experts", .call = kGivesTensor, .local_params = true, .deals_experts = true},
    {.style = "local_params", .local_params = true},
    {.style = "mla_kv_a_proj", .output = kSumTail, .call = kGivesTensor},
    {.style = "moe_identity_expert", .input = kDivide, .call = kTakesTensor},
    {.style = "moe_tp_experts", .input = kSumGrad, .second = kSumGrad, .output = kSumValue, .call = kTensorToTensor, .local_params = true},
    {.style = "packed_colwise", .input = kTakeWholeLocally, .call = kTakesTensor, .local_params = true},
    {.style = "packed_rowwise"},
    {.style = "replicate"},
    {.style = "replicated_with_grad_allreduce", .sums_params = true},
    {.style = "rowwise", .input = kTakeLast, .output = kSum, .call = kTensorToTensor, .fast = &kFastSum},
    {.style = "rowwise_rep", .input = kCutLast, .output = kSum, .call = kTensorToTensor, .fast = &kFastCutAndSum},
    {.style = "rowwise_split_input", .input = kCutLast, .output = kSum, .call = kTensorToTensor, .fast = &kFastCutAndSum},
    {.style = "sequence_parallel", .input = kTakeSequence, .output = kToLocal, .call = kTakesTensor},
};
// clang-format on

}  // namespace

const StyleProgram* find_transformers_program(std::string_view style) {
  const auto* row = std::find_if(std::begin(kPrograms), std::end(kPrograms),
                                 [style](const StyleProgram& p) { return p.style == style; });
  return row == std::end(kPrograms) ? nullptr : row;
}

}  // namespace tpplan
