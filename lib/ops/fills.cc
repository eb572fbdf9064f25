// The rule of tensor factories. Local sizes are the requested ones. Zeros and uninitialised memory fit partial values
// too.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_rules.h"

namespace tpplan {

void rule_fill(OpCall& call, OpResult& result) {
  const auto target = out_shape(call);
  const std::string_view name = call.name;
  const FillSpec& fill = op_row(call.node.op).fill;
  ValueLayout out;
  out.zero = fill.is_zero;
  if (fill.size == FillSize::Like || fill.size == FillSize::InPlace) {
    const auto x = tensor_at(call, 0);
    if (const auto value = tensor_at(call, 1); value && value->layout->partial)
      mark_wrong(result, Code::PartialUsedAsFull, fmt::format("{} uses a pending partial sum as the full sum", name));
    if (!x) return append_result(result, replicated_layout(call.table, target));
    for (size_t dim = 0; dim < x->layout->dims.size(); ++dim)
      out.dims.push_back(unknown_dim(call.table.maps, target[dim], call.table.maps.maps[x->layout->dims[dim]].local,
                                     call.table.maps.maps[x->layout->dims[dim]].axes));
    return append_result(result, std::move(out));
  }
  if (fill.size == FillSize::Range) {
    // A bound that differs by rank changes the number of elements or their values.
    const std::vector<Operand> tensors = tensors_of(call);
    for (size_t i = 0; i < call.args.size(); ++i) {
      const GraphArg& arg = call.graph.args[call.args[i]];
      if (!is_number(&arg)) continue;
      const PerRankNumber n = number_of(call, arg);
      if (std::all_of(n.local.begin(), n.local.end(), [&](int64_t k) { return k == n.traced; })) continue;
      mark_wrong(result, Code::ReductionOverShard,
                 fmt::format("{} counts to the local size {}, but the global size is {}", name, n.local[0], n.traced));
      std::vector<int64_t> sizes = n.local;
      for (const int64_t size : target) out.dims.push_back(unknown_dim(call.table.maps, size, sizes, n.axes));
      return append_result(result, std::move(out));
    }
    return append_result(result, replicated_layout(call.table, target));
  }
  if (fill.size == FillSize::Scalar) return append_result(result, replicated_layout(call.table, target));
  std::vector<PerRankNumber> sizes = numbers_at(call, fill.size == FillSize::Method ? 1 : 0, "size");
  if (sizes.size() != target.size()) return append_result(result, replicated_layout(call.table, target));
  for (size_t dim = 0; dim < target.size(); ++dim)
    out.dims.push_back(unknown_dim(call.table.maps, target[dim], sizes[dim].local, sizes[dim].axes));
  append_result(result, std::move(out));
}

}  // namespace tpplan
