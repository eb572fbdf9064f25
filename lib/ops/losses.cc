// Losses by notation, elementwise or over classes, with their reduction.
#include <spdlog/fmt/fmt.h>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct LossOpRow {
  bool of_classes = false;  // its input has scores of classes in dim 1, its target one class index
  size_t reduction_at = 100;
};

constexpr auto kLosses = by_op<LossOpRow>({
    {OpId::CrossEntropy, {true, 6}},
    {OpId::NllLoss, {true, 6}},
    {OpId::MseLoss, {false, 4}},
    {OpId::L1Loss, {false, 4}},
    {OpId::SmoothL1Loss, {false, 4}},
    {OpId::HuberLoss, {false, 2}},
    {OpId::KlDiv, {false, 4}},
    {OpId::BinaryCrossEntropy, {false, 5}},
    {OpId::BinaryCrossEntropyWithLogits, {false, 5}},
});

std::string_view reduction_of(const OpCall& call, const LossOpRow& loss) {
  const GraphArg* arg = find_arg(call, loss.reduction_at, "reduction");
  return arg != nullptr && arg->kind == ArgKind::Text ? std::string_view(call.graph.texts[arg->id]) : "mean";
}

}  // namespace

void rule_loss(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input"), target = tensor_at(call, 1, "target");
  const LossOpRow& loss = kLosses[index_of(call.node.op)];
  if (!x || !target) return;
  std::vector<Operand> operands{*x, *target};
  // Factors of the class scores, and of tensors without a dim of classes.
  const bool is_one = loss.of_classes && x->shape.size() == 1;
  std::string scores = "z..", others = "z..", summed = "z";
  if (loss.of_classes) {
    scores = is_one ? "c" : "n c s..";
    others = is_one ? "" : "n s..";
    summed = is_one ? "" : "n s";
  }
  const bool is_dense = loss.of_classes && target->shape.size() == x->shape.size();
  std::string text = fmt::format("{}, {}", scores, is_dense ? scores : others);
  if (const auto weight = tensor_at(call, 2, "weight")) {
    operands.push_back(*weight);
    text += loss.of_classes ? ", c" : ", z..";
  }
  if (const auto positive = tensor_at(call, 6, "pos_weight"); positive && !loss.of_classes) {
    operands.push_back(*positive);
    text += ", z..";
  }
  const std::string_view reduction = reduction_of(call, loss);
  text += fmt::format(" -> {}; whole {} {}; bends", reduction == "none" ? others : "", loss.of_classes ? "c" : "",
                      reduction == "sum" || reduction == "none" ? "" : summed);
  apply_factors(call, result, text, std::move(operands));
}

}  // namespace tpplan
