// expand, expand_as and broadcast_to: repeat a dim of size 1 without a copy.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/local_counts.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// Divides the sizes of sharded dims that may be divided. If there are none, the first repeated dim has the number of
// heads of the code: one head of keys becomes that of each head of queries.
void divide_counts(const OpCall& call, const Operand& x, std::vector<PerRankNumber>& sizes) {
  if (x.layout->dims.size() > sizes.size()) return;
  const size_t added = sizes.size() - x.layout->dims.size();
  bool has_sharded = false;
  for (size_t dim = added; dim < sizes.size(); ++dim) {
    const DimLayout& held = call.table.maps.maps[x.layout->dims[dim - added]];
    const bool is_sharded = held.local.front() * call.counts->ranks == sizes[dim].traced && held.size != 1;
    if (!is_sharded || sizes[dim].use == LiteralUse::Global) continue;
    divide_by_ranks(call, sizes[dim]);
    has_sharded = true;
  }
  const auto repeated = std::ranges::find(sizes, LiteralUse::Local, &PerRankNumber::use);
  if (!has_sharded && repeated != sizes.end()) divide_by_ranks(call, *repeated);
}

}  // namespace

void rule_expand(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  const auto target = out_shape(call);
  if (!x) return;
  std::vector<PerRankNumber> sizes;
  if (const auto other = tensor_at(call, 1, "other")) {
    for (size_t dim = 0; dim < other->shape.size(); ++dim)
      sizes.push_back({call.table.maps.maps[other->layout->dims[dim]].local, other->shape[dim],
                       call.table.maps.maps[other->layout->dims[dim]].axes});
  } else {
    sizes = sizes_at(call, 1, "size");
  }
  if (call.counts != nullptr) divide_counts(call, *x, sizes);
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
    bool repeats = false, is_unchanged = true;
    for (size_t rank = 0; rank < local.size(); ++rank) {
      const int64_t requested = sizes[dim].local[rank] == -1 ? held.local[rank] : sizes[dim].local[rank];
      if (requested != held.local[rank] && held.local[rank] != 1)
        crash(result, Code::OperandSizesDiffer,
              fmt::format("{} of dim {} to {}, but its local size is {} (globally to {}, from {})", name_of(call), dim,
                          requested, rank_sizes_text(held.local), target[dim], held.size));
      repeats = repeats || (requested != held.local[rank]);
      is_unchanged = is_unchanged && requested == held.local[rank];
      local[rank] = requested;
    }
    if (is_unchanged && held.size == target[dim]) {
      out.dims.push_back(map);
      continue;
    }
    if (held.size != 1 && repeats)
      mark_wrong(
          result, Code::ShardsMismatch,
          fmt::format("{} repeats dim {}, because a rank holds one element of {}", name_of(call), dim, held.size));
    out.dims.push_back(unknown_dim(call.table.maps, target[dim], std::move(local), sizes[dim].axes | held.axes));
  }
  append_result(result, std::move(out));
}

}  // namespace tpplan
