// layer_norm, rms_norm: by notation, over the last dims, whose sizes the call names.
#include <spdlog/fmt/fmt.h>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

constexpr std::string_view kBare = "b.. n.. -> b.. n..; whole n; norm 1";
constexpr std::string_view kLayerNorm = "b.. n.., n.. | n.. -> b.. n..; whole n; norm 1";
constexpr std::string_view kRmsNorm = "b.. n.., n.. -> b.. n..; whole n; norm 1";

// torch compares normalized_shape with what the rank holds.
void check_shape(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const auto shape = numbers_at(call, 1, "normalized_shape");
  if (!x) return;
  for (size_t i = 0; i < shape.size() && i < x->layout->dims.size(); ++i) {
    for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
      const int64_t held = local_size(call.table, *x->layout, x->layout->dims.size() - 1 - i, rank);
      const int64_t asked = shape[shape.size() - 1 - i].local[rank];
      if (held != asked)
        crash(result, Code::TP5102,
              fmt::format("{} over {} elements, and rank {} holds {}", name_of(call), asked, rank, held));
    }
  }
}

}  // namespace

void rule_norm(OpCall& call, OpResult& result) {
  check_shape(call, result);
  std::vector<Operand> operands;
  for (const auto& x : {tensor_at(call, 0, "input"), tensor_at(call, 2, "weight"), tensor_at(call, 3, "bias")}) {
    if (x) operands.push_back(*x);
  }
  const bool weighted = tensor_at(call, 2, "weight").has_value();
  const std::string_view text = !weighted ? kBare : call.name == "layer_norm" ? kLayerNorm : kRmsNorm;
  apply_factors(call, result, text, std::move(operands));
}

}  // namespace tpplan
