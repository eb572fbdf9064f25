#include "report/shard_grid.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

constexpr int64_t kAny = -1;
constexpr size_t kMaxCaptionDims = 16;  // dims listed in a caption

// Sets the coordinates on `axes` to those of shard index `shard`, major axis first.
void set_coordinates(const DimAxes& axes, const Mesh& mesh, int64_t shard, std::vector<int64_t>& coordinate) {
  for (size_t k = axes.size(); k-- > 0;) {
    coordinate[axes[k]] = shard % mesh.axes[axes[k]].size;
    shard /= mesh.axes[axes[k]].size;
  }
}

void append_rank(CellRanks& out, int64_t rank) {
  if (!out.ranks.empty() && out.ranks.back().end == rank)
    ++out.ranks.back().end;
  else
    out.ranks.push_back({rank, rank + 1});
  ++out.listed;
}

// Returns the first `most` ranks with the coordinates `fixed`; kAny matches all coordinates. Iterates the free axes
// with the minor axis fastest. Ranks are row-major over the mesh, so they are ascending. At most `most` ranks are
// visited.
CellRanks matching_ranks(const Mesh& mesh, const std::vector<int64_t>& fixed, int64_t most) {
  CellRanks out;
  out.count = 1;
  std::vector<int64_t> coordinate = fixed;
  for (size_t axis = 0; axis < fixed.size(); ++axis) {
    if (fixed[axis] != kAny) continue;
    out.count *= mesh.axes[axis].size;
    coordinate[axis] = 0;
  }
  while (out.listed < std::min(most, out.count)) {
    append_rank(out, rank_of(mesh, coordinate));
    for (size_t axis = fixed.size(); axis-- > 0;) {
      if (fixed[axis] != kAny) continue;
      if (++coordinate[axis] < mesh.axes[axis].size) break;
      coordinate[axis] = 0;
    }
  }
  return out;
}

}  // namespace

// The shard of a dim depends only on the axes of this dim, so the cost is the sum of the shard counts of the dims, not
// their product.
ShardGrid make_shard_grid(const ParamLayout& layout, const Mesh& mesh, int64_t max_shards) {
  ShardGrid grid;
  grid.intervals.resize(layout.shape.size());
  grid.cell_count = 1;
  const auto first_slice = shard_slice(layout.shape, layout.sharding, mesh, std::vector<int64_t>(mesh.axes.size(), 0));
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    const DimAxes& axes = layout.sharding.spec[dim];
    const int64_t shards = shard_count(axes, mesh);
    grid.complete = grid.complete && shards <= max_shards;
    std::vector<int64_t> coordinate(mesh.axes.size(), 0);
    for (int64_t shard = 0; shard < std::min(shards, max_shards); ++shard) {
      set_coordinates(axes, mesh, shard, coordinate);
      const auto slice =
          shard == 0 ? first_slice[dim] : shard_slice(layout.shape, layout.sharding, mesh, coordinate)[dim];
      for (const Interval& run : slice) {
        if (length(run) == 0) continue;
        if (grid.intervals[dim].size() < kMaxGridIntervals)
          grid.intervals[dim].push_back({run, shard});
        else
          grid.complete = false;
      }
    }
    std::sort(grid.intervals[dim].begin(), grid.intervals[dim].end(),
              [](const GridInterval& a, const GridInterval& b) { return a.interval.begin < b.interval.begin; });
    if (__builtin_mul_overflow(grid.cell_count, grid.intervals[dim].size(), &grid.cell_count))
      grid.cell_count = ~uint64_t{0};
  }
  return grid;
}

std::string interval_text(const GridInterval& run) {
  return fmt::format("{}:{}", run.interval.begin, run.interval.end);
}

GridSlice first_slice(const ShardGrid& grid) {
  std::vector<size_t> chosen;
  for (const bool is_sharded_dim : {true, false}) {
    for (size_t dim = grid.intervals.size(); dim-- > 0 && chosen.size() < 2;) {
      if ((grid.intervals[dim].size() > 1) == is_sharded_dim) chosen.push_back(dim);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  GridSlice slice{.down = {}, .across = {}, .at = std::vector<size_t>(grid.intervals.size())};
  if (!chosen.empty()) slice.down = chosen[0];
  if (chosen.size() > 1) slice.across = chosen[1];
  return slice;
}

bool next_slice(const ShardGrid& grid, GridSlice& slice) {
  for (size_t dim = slice.at.size(); dim-- > 0;) {
    if (slice.down == dim || slice.across == dim) continue;
    if (++slice.at[dim] < grid.intervals[dim].size()) return true;
    slice.at[dim] = 0;
  }
  return false;
}

size_t table_extent(const ShardGrid& grid, const std::optional<size_t>& dim) {
  return dim ? grid.intervals[*dim].size() : 1;
}

std::vector<int64_t> shards_at(const ShardGrid& grid, const GridSlice& slice) {
  std::vector<int64_t> shards;
  for (size_t dim = 0; dim < slice.at.size(); ++dim) shards.push_back(grid.intervals[dim][slice.at[dim]].shard);
  return shards;
}

std::string caption_text(const ShardGrid& grid, const GridSlice& slice) {
  std::vector<std::string> parts;
  size_t omitted = 0;
  for (size_t dim = 0; dim < slice.at.size(); ++dim) {
    if (slice.down == dim || slice.across == dim) continue;
    if (parts.size() < kMaxCaptionDims)
      parts.push_back(fmt::format("dim {} {}", dim, interval_text(grid.intervals[dim][slice.at[dim]])));
    else
      ++omitted;
  }
  std::string text =
      parts.empty() ? "Ranks that hold each shard" : fmt::format("Ranks that hold each shard at {}", join(parts, ", "));
  if (omitted > 0) text += fmt::format(" and {} more", counted(omitted, "dim"));
  return text;
}

CellRanks ranks_of_cell(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> shards, int64_t most) {
  std::vector<int64_t> fixed(mesh.axes.size(), kAny);
  for (size_t dim = 0; dim < shards.size(); ++dim) set_coordinates(layout.sharding.spec[dim], mesh, shards[dim], fixed);
  return matching_ranks(mesh, fixed, most);
}

CellRanks empty_ranks(const ParamLayout& layout, const Mesh& mesh, int64_t most) {
  const bool holds_something = std::find(layout.shape.begin(), layout.shape.end(), 0) == layout.shape.end();
  if (!holds_something || layout.local_shapes.size() == 1) return {};
  const std::vector<AxisId> axes = axes_in_mesh_order(layout.sharding.spec, mesh.axes.size());
  CellRanks out;
  std::vector<int64_t> first;
  for (size_t i = 0; i < layout.local_shapes.size(); ++i) {
    const std::vector<int64_t>& shape = layout.local_shapes[i];
    if (std::find(shape.begin(), shape.end(), 0) == shape.end()) continue;
    std::vector<int64_t> fixed(mesh.axes.size(), kAny);
    set_coordinates(axes, mesh, static_cast<int64_t>(i), fixed);
    out.count += layout.replicas;
    // The smallest `most` ranks overall are among the smallest `most` of each shape.
    for (const RankRange& run : matching_ranks(mesh, fixed, most).ranks) {
      for (int64_t rank = run.begin; rank < run.end; ++rank) first.push_back(rank);
    }
  }
  std::sort(first.begin(), first.end());
  first.resize(std::min(first.size(), static_cast<size_t>(most)));
  for (const int64_t rank : first) append_rank(out, rank);
  return out;
}

}  // namespace tpplan
