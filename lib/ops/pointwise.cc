// The rule of elementwise operations.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_rules.h"

namespace tpplan {
namespace {

// True if an argument is a number other than 0, or a size (for sums and `where`).
bool adds_number(const OpCall& call) {
  for (size_t i = 0; i < call.args.size(); ++i) {
    const GraphArg& arg = call.graph.args[call.args[i]];
    if ((is_number(&arg) && arg.kind == ArgKind::Size) ||
        ((is_number(&arg) || arg.kind == ArgKind::Float) && arg.number != 0))
      return true;
  }
  return false;
}

// Reports factors that are local sizes, because they differ from the global ones.
void check_factors(OpCall& call, OpResult& result) {
  for (const uint32_t at : call.args) {
    const GraphArg& arg = call.graph.args[at];
    if (arg.kind != ArgKind::Size) continue;
    const PerRankNumber factor = number_of(call, arg);
    if (std::any_of(factor.local.begin(), factor.local.end(), [&](int64_t n) { return n != factor.traced; }))
      mark_wrong(result, Code::ReductionOverShard,
                 fmt::format("{} by a local size: {}, but the global size is {}", name_of(call),
                             rank_sizes_text(factor.local), factor.traced));
  }
}

}  // namespace

void rule_pointwise(OpCall& call, OpResult& result) {
  const OpId op = call.node.op;
  Linearity linearity = op_row(op).linearity;
  std::vector<Operand> operands = tensors_of(call);
  if (operands.empty()) return append_result(result, replicated_layout(call.table, out_shape(call)));
  if (op == OpId::Prelu && operands.size() > 1 &&
      std::ranges::any_of(operands[1].shape, [](int64_t n) { return n != 1; })) {
    result.unknown = true;  // one slope for each index of dim 1
    return;
  }
  if (op == OpId::TypeAs || (linearity == Linearity::Linear && operands.size() > 1)) operands.resize(1);
  ValueLayout out;
  out.dims = broadcast_dims(call, result, operands);
  // For `where` and masked_fill the condition must be complete. It is no addend.
  std::span<const Operand> summed = operands;
  bool number_added = linearity == Linearity::Add && adds_number(call);
  if (op == OpId::Where || op == OpId::MaskedFill) {
    const size_t condition = op == OpId::Where ? 0 : 1;
    if (condition < operands.size() && operands[condition].layout->partial)
      mark_wrong(result, Code::PartialUsedAsFull,
                 fmt::format("the condition of {} is a pending partial sum, but is used as the full sum", call.name));
    if (op == OpId::MaskedFill) {
      linearity = Linearity::Add;
      const GraphArg* value = find_arg(call, 2, "value");
      number_added = value != nullptr && value->kind != ArgKind::Value && value->number != 0;
      operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(1, operands.size() - 1)));
      summed = operands;
    } else {
      summed = std::span(operands).subspan(std::min<size_t>(1, operands.size()));
    }
  }
  if (op == OpId::Copy) summed = std::span(operands).subspan(operands.size() > 1 ? 1 : 0);
  if (linearity == Linearity::Mul || linearity == Linearity::Div) check_factors(call, result);
  combine_partial_sums(call, result, summed, linearity, number_added, out);
  if (op == OpId::Contiguous || op == OpId::To || op == OpId::Dropout || op == OpId::Type || op == OpId::Float)
    out.local_view = operands[0].layout->local_view && op != OpId::Float;
  if (call.node.in_place && !operands.empty()) {
    // An in-place operation cannot change the size of its target.
    const ValueLayout& target = *operands[0].layout;
    for (size_t dim = 0; dim < out.dims.size() && dim < target.dims.size(); ++dim) {
      if (!same_sizes(call.table.maps, out.dims[out.dims.size() - 1 - dim], target.dims[target.dims.size() - 1 - dim]))
        crash(result, Code::OperandSizesDiffer,
              fmt::format("{} writes to a tensor of a different local size", name_of(call)));
    }
  }
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
