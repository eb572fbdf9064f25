#include "ops/layout_parts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {

std::optional<DimLayoutId> slice_layout(DimLayoutTable& table, DimLayoutId id, std::span<const LocalSlice> local,
                                        const LocalSlice& global, std::string& fault) {
  const DimLayout map = table.maps[id];  // a copy, because interning can move the table
  const auto count = [](const LocalSlice& s) {
    return s.end <= s.begin ? int64_t{0} : (s.end - s.begin + s.step - 1) / s.step;
  };
  const int64_t size = count(global);
  if (map.kind == DimLayoutKind::Any) {
    std::vector<int64_t> sizes;
    for (const LocalSlice& slice : local) sizes.push_back(count(slice));
    return unknown_dim(table, size, std::move(sizes), map.axes);
  }
  RankIntervals intervals(table.ranks);
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    const LocalSlice& slice = local[rank];
    int64_t first = 0;  // local index of the interval's first element
    for (const Interval& run : rank_intervals(map, rank)) {
      const int64_t after = first + length(run);
      // The local indices slice.begin + k * step in [first, after).
      const int64_t skip = slice.begin >= first ? 0 : (first - slice.begin + slice.step - 1) / slice.step;
      int64_t at = slice.begin + skip * slice.step;
      const int64_t stop = std::min(after, slice.end);
      if (at < stop) {
        const int64_t n = (stop - at + slice.step - 1) / slice.step;
        const int64_t g = run.begin + (at - first);
        const int64_t last = g + (n - 1) * slice.step;
        const bool inside = g >= global.begin && last < global.end && (g - global.begin) % global.step == 0;
        if (!inside || (slice.step != global.step && n > 1)) {
          fault = fmt::format("rank {} selects global indices {}..{}, the unsharded model {}..{}", rank, g, last,
                              global.begin, global.end - 1);
          return std::nullopt;
        }
        append_interval(intervals[rank], {(g - global.begin) / global.step, (g - global.begin) / global.step + n});
        if (intervals[rank].size() > kMaxIntervals) {
          fault = "its shards have too many intervals to track";
          return std::nullopt;
        }
      }
      first = after;
    }
  }
  return layout_of_intervals(table, size, std::move(intervals));
}

std::optional<DimLayoutId> concat_layouts(DimLayoutTable& table, std::span<const DimLayoutId> parts) {
  int64_t size = 0;
  bool any = false;
  std::vector<int64_t> local(table.ranks);
  AxisMask axes = 0;
  for (const DimLayoutId part : parts) {
    axes |= table.maps[part].axes;
    size += table.maps[part].size;
    any = any || table.maps[part].kind == DimLayoutKind::Any;
    for (size_t rank = 0; rank < table.ranks; ++rank) local[rank] += table.maps[part].local[rank];
  }
  if (any) return unknown_dim(table, size, std::move(local), axes);
  RankIntervals intervals(table.ranks);
  int64_t offset = 0;
  for (const DimLayoutId part : parts) {
    for (size_t rank = 0; rank < table.ranks; ++rank) {
      for (const Interval& run : rank_intervals(table.maps[part], rank))
        append_interval(intervals[rank], {run.begin + offset, run.end + offset});
      if (intervals[rank].size() > kMaxIntervals) return std::nullopt;
    }
    offset += table.maps[part].size;
  }
  return layout_of_intervals(table, size, std::move(intervals));
}

}  // namespace tpplan
