// Losses: by notation, of elements or of classes, and what their reduction makes of them.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct LossRow {
  std::string_view name;
  bool of_classes = false;  // of scores of classes, dim 1, and the number of one
  size_t reduction_at = 100;
};

constexpr LossRow kLosses[] = {
    {"cross_entropy", true, 6},
    {"nll_loss", true, 6},
    {"mse_loss", false, 4},
    {"l1_loss", false, 4},
    {"smooth_l1_loss", false, 4},
    {"huber_loss", false, 2},
    {"kl_div", false, 4},
    {"binary_cross_entropy", false, 5},
    {"binary_cross_entropy_with_logits", false, 5},
};

std::string_view reduction_of(const OpCall& call, const LossRow& loss) {
  const GraphArg* arg = find_arg(call, loss.reduction_at, "reduction");
  return arg != nullptr && arg->kind == ArgKind::Text ? std::string_view(call.graph.texts[arg->id]) : "mean";
}

}  // namespace

void rule_loss(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input"), target = tensor_at(call, 1, "target");
  const auto* loss = std::find_if(std::begin(kLosses), std::end(kLosses),
                                  [&](const LossRow& candidate) { return candidate.name == call.name; });
  if (!x || !target || loss == std::end(kLosses)) return;
  std::vector<Operand> operands{*x, *target};
  // Scores of the classes, and what is there once for all of them.
  const bool is_one = loss->of_classes && x->shape.size() == 1;
  std::string scores = "z..", others = "z..", summed = "z";
  if (loss->of_classes) {
    scores = is_one ? "c" : "n c s..";
    others = is_one ? "" : "n s..";
    summed = is_one ? "" : "n s";
  }
  const bool is_dense = loss->of_classes && target->shape.size() == x->shape.size();
  std::string text = fmt::format("{}, {}", scores, is_dense ? scores : others);
  if (const auto weight = tensor_at(call, 2, "weight")) {
    operands.push_back(*weight);
    text += loss->of_classes ? ", c" : ", z..";
  }
  if (const auto positive = tensor_at(call, 6, "pos_weight"); positive && !loss->of_classes) {
    operands.push_back(*positive);
    text += ", z..";
  }
  const std::string_view reduction = reduction_of(call, *loss);
  text += fmt::format(" -> {}; whole {} {}; bends", reduction == "none" ? others : "", loss->of_classes ? "c" : "",
                      reduction == "sum" || reduction == "none" ? "" : summed);
  apply_factors(call, result, text, std::move(operands));
}

}  // namespace tpplan
