// pad: dims that are not padded stay; padded ones must be whole.
#include <spdlog/fmt/fmt.h>

#include "ops/op_rules.h"

namespace tpplan {

void rule_pad(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  const auto target = out_shape(call);
  const std::vector<RankNumber> padding = numbers_at(call, 1, "pad");
  Spread out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  const size_t ndim = x->layout->dims.size();
  // Pairs of numbers, for the last dim first.
  for (size_t i = 0; i + 1 < padding.size() && i / 2 < ndim; i += 2) {
    const size_t dim = ndim - 1 - i / 2;
    if (padding[i].traced == 0 && padding[i + 1].traced == 0) continue;
    if (!is_whole(call.table.maps, x->layout->dims[dim]))
      make_wrong(result, Code::TP5113, fmt::format("padding of dim {}, of which ranks hold pieces", dim));
    out.dims[dim] = whole_map(call.table.maps, target[dim]);
  }
  const GraphArg* value = find_arg(call, 3, "value");
  if (out.partial && value != nullptr && value->number != 0)
    make_wrong(result, Code::TP5109, "a sum that is still open is padded with a number");
  give(result, std::move(out));
}

}  // namespace tpplan
