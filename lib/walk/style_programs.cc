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
constexpr BoundaryStep kSumGradient[] = {{StepKind::ToLocal, {}}, {StepKind::SumGradient, {}}};
constexpr BoundaryStep kSumValue[] = {{StepKind::SumValue, {}}};
constexpr BoundaryStep kDivide[] = {{StepKind::Divide, {}}};
constexpr BoundaryStep kSumTail[] = {{StepKind::SumTailGradient, {}}};
constexpr BoundaryStep kCutLocally[] = {
    {StepKind::FromLocal, kWhole}, {StepKind::Redistribute, kLast}, {StepKind::ToLocal, {}}};

// clang-format off
constexpr StyleProgram kPrograms[] = {
    {.style = "all_reduce", .output = kSum, .output_is_one = true},
    {.style = "colwise", .input = kTakeWhole, .output = kLeaveLast, .takes_first = true, .output_is_one = true, .has_fast_path = true},
    {.style = "colwise_gather_output", .input = kTakeWhole, .output = kGather, .takes_first = true, .output_is_one = true, .has_fast_path = true, .fast_output = kGather},
    {.style = "colwise_rep", .input = kTakeWhole, .output = kGather, .takes_first = true, .output_is_one = true, .has_fast_path = true, .fast_output = kGather},
    {.style = "embedding_colwise", .input = kTakeWhole, .output = kGather, .takes_first = true, .output_is_one = true},
    {.style = "embedding_rowwise", .input = kTakeWhole, .output = kSum, .takes_first = true, .output_is_one = true},
    {.style = "local_params", .local_params = true},
    {.style = "mla_kv_a_proj", .output = kSumTail, .output_is_one = true},
    {.style = "moe_identity_expert", .input = kDivide, .takes_first = true},
    {.style = "moe_tp_experts", .input = kSumGradient, .second = kSumGradient, .output = kSumValue, .takes_first = true, .output_is_one = true, .local_params = true},
    {.style = "packed_colwise", .input = kTakeWholeLocally, .takes_first = true, .local_params = true},
    {.style = "packed_rowwise"},
    {.style = "replicate"},
    {.style = "replicated_with_grad_allreduce", .sums_params = true},
    {.style = "rowwise", .input = kTakeLast, .output = kSum, .takes_first = true, .output_is_one = true, .has_fast_path = true, .fast_output = kSumValue, .hides_bias = true},
    {.style = "rowwise_rep", .input = kCutLast, .output = kSum, .takes_first = true, .output_is_one = true, .has_fast_path = true, .fast_input = kCutLocally, .fast_output = kSumValue, .hides_bias = true},
    {.style = "rowwise_split_input", .input = kCutLast, .output = kSum, .takes_first = true, .output_is_one = true, .has_fast_path = true, .fast_input = kCutLocally, .fast_output = kSumValue, .hides_bias = true},
    {.style = "sequence_parallel", .input = kTakeSequence, .output = kToLocal, .takes_first = true},
};
// clang-format on

}  // namespace

const StyleProgram* find_transformers_program(std::string_view style) {
  const auto* row = std::find_if(std::begin(kPrograms), std::end(kPrograms),
                                 [style](const StyleProgram& p) { return p.style == style; });
  return row == std::end(kPrograms) ? nullptr : row;
}

}  // namespace tpplan
