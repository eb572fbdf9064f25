// expand, expand_as, broadcast_to: a dim of size 1 repeated without a copy.
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
    crash(result, Code::TP5103,
          fmt::format("{} to {} dims, and the recorded result has {}", name_of(call), sizes.size(), target.size()));
    return give(result, whole_layout(call.table, target));
  }
  Spread out;
  out.partial = x->layout->partial;
  out.zero = x->layout->zero;
  out.local_view = x->layout->local_view;
  const size_t added = target.size() - x->layout->dims.size();
  for (size_t dim = 0; dim < target.size(); ++dim) {
    if (dim < added) {
      out.dims.push_back(any_map(call.table.maps, target[dim], sizes[dim].local, sizes[dim].axes));
      continue;
    }
    const MapId map = x->layout->dims[dim - added];
    const DimMap held = call.table.maps.maps[map];
    std::vector<int64_t> local(call.table.maps.ranks);
    bool repeats = false, keeps = true;
    for (size_t rank = 0; rank < local.size(); ++rank) {
      const int64_t asked = sizes[dim].local[rank] == -1 ? held.local[rank] : sizes[dim].local[rank];
      if (asked != held.local[rank] && held.local[rank] != 1)
        crash(result, Code::TP5102,
              fmt::format("{} of dim {} to {}, and the ranks have {} (to {}, of {}, in the whole model)", name_of(call),
                          dim, asked, rank_sizes_text(held.local), target[dim], held.size));
      repeats = repeats || (asked != held.local[rank]);
      keeps = keeps && asked == held.local[rank];
      local[rank] = asked;
    }
    if (keeps && held.size == target[dim]) {
      out.dims.push_back(map);
      continue;
    }
    if (held.size != 1 && repeats)
      make_wrong(result, Code::TP5107,
                 fmt::format("{} repeats dim {}, of which some rank holds one of {}", name_of(call), dim, held.size));
    out.dims.push_back(any_map(call.table.maps, target[dim], std::move(local), sizes[dim].axes | held.axes));
  }
  give(result, std::move(out));
}

}  // namespace tpplan
