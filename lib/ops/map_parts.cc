#include "ops/map_parts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {

std::optional<MapId> slice_map(MapTable& table, MapId id, std::span<const LocalSlice> local, const LocalSlice& whole,
                               std::string& fault) {
  const DimMap map = table.maps[id];  // interning may move the table
  const auto count = [](const LocalSlice& s) {
    return s.end <= s.begin ? int64_t{0} : (s.end - s.begin + s.step - 1) / s.step;
  };
  const int64_t size = count(whole);
  if (map.kind == MapKind::Any) {
    std::vector<int64_t> sizes;
    for (const LocalSlice& slice : local) sizes.push_back(count(slice));
    return any_map(table, size, std::move(sizes), map.axes);
  }
  RankRuns runs(table.ranks);
  for (size_t rank = 0; rank < table.ranks; ++rank) {
    const LocalSlice& slice = local[rank];
    int64_t first = 0;  // local index of the run's first element
    for (const Interval& run : runs_of(map, rank)) {
      const int64_t after = first + length(run);
      // Local indices slice.begin + k * step inside [first, after).
      const int64_t skip = slice.begin >= first ? 0 : (first - slice.begin + slice.step - 1) / slice.step;
      int64_t at = slice.begin + skip * slice.step;
      const int64_t stop = std::min(after, slice.end);
      if (at < stop) {
        const int64_t n = (stop - at + slice.step - 1) / slice.step;
        const int64_t g = run.begin + (at - first);
        const int64_t last = g + (n - 1) * slice.step;
        const bool inside = g >= whole.begin && last < whole.end && (g - whole.begin) % whole.step == 0;
        if (!inside || (slice.step != whole.step && n > 1)) {
          fault = fmt::format("rank {} takes {}..{} of the whole, which takes {}..{}", rank, g, last, whole.begin,
                              whole.end - 1);
          return std::nullopt;
        }
        append_run(runs[rank], {(g - whole.begin) / whole.step, (g - whole.begin) / whole.step + n});
        if (runs[rank].size() > kMaxRuns) {
          fault = "its pieces are too small to follow";
          return std::nullopt;
        }
      }
      first = after;
    }
  }
  return runs_map(table, size, std::move(runs));
}

std::optional<MapId> concat_maps(MapTable& table, std::span<const MapId> parts) {
  int64_t size = 0;
  bool any = false;
  std::vector<int64_t> local(table.ranks);
  AxisMask axes = 0;
  for (const MapId part : parts) {
    axes |= table.maps[part].axes;
    size += table.maps[part].size;
    any = any || table.maps[part].kind == MapKind::Any;
    for (size_t rank = 0; rank < table.ranks; ++rank) local[rank] += table.maps[part].local[rank];
  }
  if (any) return any_map(table, size, std::move(local), axes);
  RankRuns runs(table.ranks);
  int64_t offset = 0;
  for (const MapId part : parts) {
    for (size_t rank = 0; rank < table.ranks; ++rank) {
      for (const Interval& run : runs_of(table.maps[part], rank))
        append_run(runs[rank], {run.begin + offset, run.end + offset});
      if (runs[rank].size() > kMaxRuns) return std::nullopt;
    }
    offset += table.maps[part].size;
  }
  return runs_map(table, size, std::move(runs));
}

}  // namespace tpplan
