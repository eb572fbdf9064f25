// pad: other dims are unchanged; padded ones must be replicated.
#include <spdlog/fmt/fmt.h>

#include "ops/op_rules.h"

namespace tpplan {

void rule_pad(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  const auto target = out_shape(call);
  const std::vector<PerRankNumber> padding = numbers_at(call, 1, "pad");
  ValueLayout out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  const size_t ndim = x->layout->dims.size();
  // Pairs of numbers, from the last dim to the first.
  for (size_t i = 0; i + 1 < padding.size() && i / 2 < ndim; i += 2) {
    const size_t dim = ndim - 1 - i / 2;
    if (padding[i].traced == 0 && padding[i + 1].traced == 0) continue;
    if (!is_fully_replicated(call.table.maps, x->layout->dims[dim]))
      mark_wrong(result, Code::ReductionOverShard,
                 fmt::format("padding of sharded dim {} pads every local shard", dim));
    out.dims[dim] = replicated_dim(call.table.maps, target[dim]);
  }
  const GraphArg* value = find_arg(call, 3, "value");
  if (out.partial && value != nullptr && value->number != 0)
    mark_wrong(result, Code::ReplicatedValueReduced,
               "a pending partial sum is padded with a number: the reduction counts it on every rank");
  append_result(result, std::move(out));
}

}  // namespace tpplan
