// layer_norm and rms_norm by notation, over the last dims, whose sizes are an argument; _weight_norm, over all dims but
// one.
#include <spdlog/fmt/fmt.h>

#include "ops/factor_rules.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

constexpr std::string_view kBare = "b.. n.. -> b.. n..; whole n; norm 1";
constexpr std::string_view kLayerNorm = "b.. n.., n.. | n.. -> b.. n..; whole n; norm 1";
constexpr std::string_view kRmsNorm = "b.. n.., n.. -> b.. n..; whole n; norm 1";

// Checks normalized_shape against the local sizes, as torch does.
void check_shape(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0, "input");
  const auto shape = numbers_at(call, 1, "normalized_shape");
  if (!x) return;
  for (size_t i = 0; i < shape.size() && i < x->layout->dims.size(); ++i) {
    for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
      const int64_t held = local_size(call.table, *x->layout, x->layout->dims.size() - 1 - i, rank);
      const int64_t requested = shape[shape.size() - 1 - i].local[rank];
      if (held != requested)
        crash(result, Code::OperandSizesDiffer,
              fmt::format("{} over {} elements, but rank {} holds {}", name_of(call), requested, rank, held));
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
  const std::string_view text = !weighted ? kBare : call.node.op == OpId::LayerNorm ? kLayerNorm : kRmsNorm;
  apply_factors(call, result, text, std::move(operands));
}

// torch._weight_norm(v, g, dim = 0): v divided by its norm along all dims but `dim`, times g, which has size 1 along
// them. -1: the norm covers all dims (at::native::_weight_norm and norm_except_dim, torch 2.13).
void rule_weight_norm(OpCall& call, OpResult& result) {
  const auto v = tensor_at(call, 0, "v"), g = tensor_at(call, 1, "g");
  if (!v || !g) return;
  const int64_t dim = number_at(call, 2, "dim", 0).traced;
  std::string of_v, of_g, summed;
  for (size_t d = 0; d < v->shape.size(); ++d) {
    const char factor = static_cast<char>('a' + d);
    const bool is_norm_dim = static_cast<int64_t>(d) == dim;
    of_v += fmt::format(" {}", factor);
    if (!g->shape.empty()) of_g += is_norm_dim ? fmt::format(" {}", factor) : " 1";
    if (!is_norm_dim) summed += fmt::format(" {}", factor);
  }
  apply_factors(call, result, fmt::format("{},{} ->{}; whole{}; divides 0; some", of_v, of_g, of_v, summed), {*v, *g});
}

}  // namespace tpplan
