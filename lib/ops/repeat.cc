// repeat, tile and repeat_interleave.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/layout_parts.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

void interleave(OpCall& call, OpResult& result, const Operand& x) {
  const auto target = out_shape(call);
  ValueLayout out = *x.layout;
  out.is_dtensor = false;
  out.wrong = false;
  out.local_view = false;
  const GraphArg* count = find_arg(call, 1, "repeats");
  const size_t dim = dim_index(number_at(call, 2, "dim", 0).traced, x.shape.size());
  if (dim >= x.shape.size()) return append_result(result, replicated_layout(call.table, target));
  const DimLayout held = call.table.maps.maps[x.layout->dims[dim]];
  if (!is_number(count)) {
    const auto counts = tensor_at(call, 1, "repeats");
    if (counts && (counts->layout->partial || !is_all_replicated(call.table, *counts->layout)))
      mark_wrong(result, Code::ReductionOverShard,
                 fmt::format("{} by counts that are not replicated: {}", name_of(call),
                             layout_text(call.table, *counts->layout)));
    if (held.kind != DimLayoutKind::Replicated)
      mark_wrong(result, Code::ReductionOverShard,
                 fmt::format("repeats of sharded dim {} by a tensor: its counts are for the full dim", dim));
    out.dims[dim] = replicated_dim(call.table.maps, target[dim]);
    return append_result(result, std::move(out));
  }
  const PerRankNumber n = number_of(call, *count);
  std::vector<int64_t> sizes;
  RankIntervals intervals(call.table.maps.ranks);
  bool same = true;
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    same = same && n.local[rank] == n.traced;
    sizes.push_back(held.local[rank] * n.local[rank]);
    for (const Interval& run : rank_intervals(held, rank))
      intervals[rank].push_back({run.begin * n.traced, run.end * n.traced});
  }
  if (held.kind == DimLayoutKind::Any || !same) {
    // A single element stays constant, however often it is repeated.
    if (!same && held.kind != DimLayoutKind::Any && held.size != 1)
      mark_wrong(result, Code::ShardsMismatch,
                 fmt::format("{} repeats dim {} {} times, but {} times in the unsharded model", name_of(call), dim,
                             n.local[0], n.traced));
    out.dims[dim] = unknown_dim(call.table.maps, target[dim], std::move(sizes), held.axes | n.axes);
  } else {
    out.dims[dim] = layout_of_intervals(call.table.maps, target[dim], std::move(intervals));
  }
  append_result(result, std::move(out));
}

}  // namespace

void rule_repeat(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  if (call.node.op == OpId::RepeatInterleave) return interleave(call, result, *x);
  const auto target = out_shape(call);
  const std::vector<PerRankNumber> repeats = numbers_at(call, 1, call.node.op == OpId::Tile ? "dims" : "repeats");
  ValueLayout out;
  out.partial = x->layout->partial;
  out.zero = x->layout->zero;
  for (size_t dim = 0; dim < target.size(); ++dim) {
    const size_t from_end = target.size() - 1 - dim;
    const bool has_dim = from_end < x->layout->dims.size();
    const DimLayoutId map =
        has_dim ? x->layout->dims[x->layout->dims.size() - 1 - from_end] : replicated_dim(call.table.maps, 1);
    const PerRankNumber n = from_end < repeats.size()
                                ? repeats[repeats.size() - 1 - from_end]
                                : PerRankNumber{std::vector<int64_t>(call.table.maps.ranks, 1), 1, 0};
    const DimLayout held = call.table.maps.maps[map];
    const bool same = std::all_of(n.local.begin(), n.local.end(), [&](int64_t k) { return k == n.traced; });
    if (n.traced == 1 && same) {
      out.dims.push_back(map);
      continue;
    }
    std::vector<int64_t> sizes;
    for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) sizes.push_back(held.local[rank] * n.local[rank]);
    if (held.size != 1 && held.kind == DimLayoutKind::Sharded) {
      const std::vector<DimLayoutId> copies(static_cast<size_t>(std::clamp<int64_t>(n.traced, 0, 1024)), map);
      const auto joined = same ? concat_layouts(call.table.maps, copies) : std::nullopt;
      if (!joined)
        mark_wrong(result, Code::ShardsMismatch,
                   fmt::format("{} of dim {} repeats the shards a different number of times than the full dim",
                               name_of(call), dim));
      out.dims.push_back(joined ? *joined
                                : unknown_dim(call.table.maps, target[dim], std::move(sizes), held.axes | n.axes));
      continue;
    }
    if (held.size != 1 && !same)
      mark_wrong(result, Code::ShardsMismatch,
                 fmt::format("{} of dim {} repeats it a different number of times than the unsharded model",
                             name_of(call), dim));
    out.dims.push_back(unknown_dim(call.table.maps, target[dim], std::move(sizes), held.axes | n.axes));
  }
  append_result(result, std::move(out));
}

}  // namespace tpplan
