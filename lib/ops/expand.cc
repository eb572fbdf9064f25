// expand, expand_as and broadcast_to: repeat a dim of size 1 without a copy.
#include <spdlog/fmt/fmt.h>

#include "ops/op_rules.h"

namespace tpplan {

void rule_expand(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  const auto target = out_shape(call);
  if (!x) return;
  std::vector<RankNumber> sizes;
  if (const auto other = tensor_at(call, 1, "other")) {
    for (size_t dim = 0; dim < other->shape.size(); ++dim)
      sizes.push_back({call.table.maps.maps[other->layout->dims[dim]].local, other->shape[dim],
                       call.table.maps.maps[other->layout->dims[dim]].axes});
  } else {
    sizes = numbers_at(call, 1, "size");
  }
  if (sizes.size() != target.size() || x->layout->dims.size() > target.size()) {
    crash(result, Code::GlobalSizeInView,
          fmt::format("{} to {} dims, but the traced result has {}", name_of(call), sizes.size(), target.size()));
    return append_result(result, replicated_layout(call.table, target));
  }
  ValueLayout out;
  out.partial = x->layout->partial;
  out.zero = x->layout->zero;
  out.local_view = x->layout->local_view;
  const size_t added = target.size() - x->layout->dims.size();
  for (size_t dim = 0; dim < target.size(); ++dim) {
    if (dim < added) {
      out.dims.push_back(unknown_dim(call.table.maps, target[dim], sizes[dim].local, sizes[dim].axes));
      continue;
    }
    const DimLayoutId map = x->layout->dims[dim - added];
    const DimLayout held = call.table.maps.maps[map];
    std::vector<int64_t> local(call.table.maps.ranks);
    bool repeats = false, keeps = true;
    for (size_t rank = 0; rank < local.size(); ++rank) {
      const int64_t asked = sizes[dim].local[rank] == -1 ? held.local[rank] : sizes[dim].local[rank];
      if (asked != held.local[rank] && held.local[rank] != 1)
        crash(result, Code::OperandSizesDiffer,
              fmt::format("{} of dim {} to {}, but its local size is {} (globally to {}, from {})", name_of(call), dim,
                          asked, rank_sizes_text(held.local), target[dim], held.size));
      repeats = repeats || (asked != held.local[rank]);
      keeps = keeps && asked == held.local[rank];
      local[rank] = asked;
    }
    if (keeps && held.size == target[dim]) {
      out.dims.push_back(map);
      continue;
    }
    if (held.size != 1 && repeats)
      make_wrong(
          result, Code::ShardsMismatch,
          fmt::format("{} repeats dim {}, because a rank holds one element of {}", name_of(call), dim, held.size));
    out.dims.push_back(unknown_dim(call.table.maps, target[dim], std::move(local), sizes[dim].axes | held.axes));
  }
  append_result(result, std::move(out));
}

}  // namespace tpplan
