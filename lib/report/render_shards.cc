#include "report/render_shards.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "emit/emit_text.h"
#include "report/group_params.h"
#include "report/html_text.h"
#include "report/shard_grid.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Limits, with the rest counted in a sentence: tiles of one grid and of all grids, shards along a dim, ranks of a tile,
// rank ranges and patterns in a list.
constexpr size_t kExpandedGroups = 2;  // the groups with the most bytes start expanded
constexpr uint64_t kMaxCells = 512, kMaxAllCells = 8192;
constexpr int64_t kMaxShards = 64;
constexpr int64_t kMaxRanks = 64;
constexpr size_t kMaxShardIntervals = 4, kMaxShardPatterns = 60;
constexpr size_t kFewGridColumns = 2;  // grids with more columns stack the cells of a row on narrow pages
constexpr double kMapSize = 128;
constexpr int64_t kHues = 16, kLightnesses = 4;  // classes of the style sheet: h0 to h15, l0 to l3

// The state of drawing one grid.
struct Drawing {
  const ParamLayout& layout;
  const Mesh& mesh;
  const ShardGrid& grid;
  GridSlice slice;
  uint64_t cells = 0;
};

// Returns the coordinates of a shard on the axes that shard the tensor, dim by dim, major axis first.
std::vector<int64_t> coordinates_of(const Drawing& drawing, const std::vector<int64_t>& shards) {
  std::vector<int64_t> coordinates;
  for (size_t dim = 0; dim < shards.size(); ++dim) {
    const DimAxes& axes = drawing.layout.sharding.spec[dim];
    int64_t rest = shards[dim];
    const size_t first = coordinates.size();
    for (size_t i = axes.size(); i-- > 0;) {
      const int64_t size = drawing.mesh.axes[axes[i]].size;
      if (size > 1) coordinates.insert(coordinates.begin() + static_cast<ptrdiff_t>(first), rest % size);
      rest /= size;
    }
  }
  return coordinates;
}

// Returns the color classes of a tile, which depend only on its shard. The first axis determines the hue, the other
// axes the lightness. With one axis the lightness changes after each cycle of hues.
std::string tint(const Drawing& drawing, const std::vector<int64_t>& shards) {
  std::vector<int64_t> coordinates = coordinates_of(drawing, shards);
  if (coordinates.empty()) return "h0 l0";
  if (coordinates.size() == 1) coordinates.push_back(coordinates[0] / kHues);
  int64_t lightness = 0;
  for (size_t i = 1; i < coordinates.size(); ++i) lightness += coordinates[i];
  return fmt::format("h{} l{}", coordinates[0] % kHues, lightness % kLightnesses);
}

// Returns one tile of the grid as a table cell. `column` is the interval of the column, which only narrow pages show in
// the cell.
std::string cell_html(const Drawing& drawing, std::string_view column) {
  const std::vector<int64_t> shards = shards_at(drawing.grid, drawing.slice);
  const CellRanks ranks = ranks_of_cell(drawing.layout, drawing.mesh, shards, kMaxRanks);
  return fmt::format("<td class=\"{}\"{}>{}</td>", tint(drawing, shards),
                     column.empty() ? "" : fmt::format(" data-head=\"{}\"", column),
                     ranks_text(ranks.ranks, ranks.count, kMaxShardIntervals));
}

// Returns a small picture of the shards to scale. It is decorative, because the table has the same data.
std::string map_html(Drawing& drawing) {
  if (!drawing.slice.across || drawing.grid.cell_count > 128 || !drawing.grid.complete) return "";
  const auto size_of = [&](size_t dim) { return static_cast<double>(drawing.layout.shape[dim]); };
  const double ratio = std::clamp(size_of(*drawing.slice.across) / size_of(*drawing.slice.down), 0.25, 4.0);
  const double width = ratio >= 1 ? kMapSize : kMapSize * ratio, height = ratio >= 1 ? kMapSize / ratio : kMapSize;
  std::string out = fmt::format(
      "<svg class=\"map\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.2f} {1:.2f}\" aria-hidden=\"true\">",
      width + 2, height + 2);
  const double unit_x = width / size_of(*drawing.slice.across), unit_y = height / size_of(*drawing.slice.down);
  for (drawing.slice.at[*drawing.slice.down] = 0;
       drawing.slice.at[*drawing.slice.down] < table_extent(drawing.grid, drawing.slice.down);
       ++drawing.slice.at[*drawing.slice.down]) {
    const Interval rows = drawing.grid.intervals[*drawing.slice.down][drawing.slice.at[*drawing.slice.down]].interval;
    for (drawing.slice.at[*drawing.slice.across] = 0;
         drawing.slice.at[*drawing.slice.across] < table_extent(drawing.grid, drawing.slice.across);
         ++drawing.slice.at[*drawing.slice.across]) {
      const Interval columns =
          drawing.grid.intervals[*drawing.slice.across][drawing.slice.at[*drawing.slice.across]].interval;
      out += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>",
                         tint(drawing, shards_at(drawing.grid, drawing.slice)),
                         unit_x * static_cast<double>(columns.begin) + 1, unit_y * static_cast<double>(rows.begin) + 1,
                         unit_x * static_cast<double>(length(columns)), unit_y * static_cast<double>(length(rows)));
    }
  }
  return out + "</svg>\n";
}

// Returns one table of the grid, for the intervals of the other dims in `drawing.slice.at`. Draws at most `most_cells`
// tiles.
std::string slice_html(Drawing& drawing, uint64_t most_cells) {
  const std::string caption = caption_text(drawing.grid, drawing.slice);
  const size_t columns = table_extent(drawing.grid, drawing.slice.across);
  const bool is_wide = drawing.slice.across && columns > kFewGridColumns;
  std::string out = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\"><table "
      "class=\"grid{1}\">\n<caption>{0}</caption>\n",
      caption, is_wide ? " wide" : "");
  if (drawing.slice.across) {
    out +=
        fmt::format("<thead><tr><th scope=\"col\">dim {} ↓ dim {} →</th>", *drawing.slice.down, *drawing.slice.across);
    for (size_t c = 0; c < std::min<uint64_t>(columns, most_cells); ++c)
      out += fmt::format("<th scope=\"col\">{}</th>", interval_text(drawing.grid.intervals[*drawing.slice.across][c]));
    out += "</tr></thead>\n";
  }
  out += "<tbody>\n";
  const uint64_t before = drawing.cells;
  for (size_t r = 0; r < table_extent(drawing.grid, drawing.slice.down) && drawing.cells - before < most_cells; ++r) {
    if (drawing.slice.down) drawing.slice.at[*drawing.slice.down] = r;
    out += fmt::format(
        "<tr><th scope=\"row\">{}</th>",
        drawing.slice.down ? interval_text(drawing.grid.intervals[*drawing.slice.down][r]) : std::string("scalar"));
    for (size_t c = 0; c < columns && drawing.cells - before < most_cells; ++c) {
      if (drawing.slice.across) drawing.slice.at[*drawing.slice.across] = c;
      out +=
          cell_html(drawing, is_wide ? interval_text(drawing.grid.intervals[*drawing.slice.across][c]) : std::string());
      ++drawing.cells;
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// Returns the tables of a grid and subtracts the drawn tiles from `remaining_cells`, the limit of the page. At 0,
// groups have no tables.
std::string grid_html(const ParamLayout& layout, const Mesh& mesh, uint64_t& remaining_cells) {
  const ShardGrid grid = make_shard_grid(layout, mesh, kMaxShards);
  if (grid.cell_count == 0) return "<p>It has no elements, so no rank holds any.</p>\n";
  Drawing drawing{.layout = layout, .mesh = mesh, .grid = grid, .slice = first_slice(grid)};
  const uint64_t most = std::min(kMaxCells, remaining_cells);
  std::string out = "<div class=\"shards\">\n";
  if (most > 0) {
    out += map_html(drawing);
    drawing.slice = first_slice(grid);
    do {
      out += slice_html(drawing, most - drawing.cells);
    } while (drawing.cells < most && next_slice(drawing.grid, drawing.slice));
  }
  remaining_cells -= drawing.cells;
  out += "</div>\n";
  if (!grid.complete) {
    out += fmt::format(
        "<p class=\"more\">Only the first {} are drawn, and there are more. <code>tpplan show MANIFEST --rank "
        "RANK</code> prints the shards of any rank.</p>\n",
        grouped(drawing.cells, "cell"));
  }
  if (grid.complete && drawing.cells < grid.cell_count)
    out += fmt::format("<p class=\"more\">{} are drawn, {} more are not.</p>\n", grouped(drawing.cells, "cell"),
                       grouped(grid.cell_count - drawing.cells));
  const CellRanks empty = empty_ranks(layout, mesh, kMaxRanks);
  if (empty.count > 0)
    out += fmt::format("<p>{} no elements of it: {}.</p>\n",
                       empty.count == 1 ? "1 rank holds" : grouped(static_cast<uint64_t>(empty.count)) + " ranks hold",
                       ranks_text(empty.ranks, empty.count, kMaxShardIntervals));
  return out;
}

std::string shard_count_text(const ParamLayout& layout) {
  const auto all = [&](const auto& pick) {
    std::vector<int64_t> sizes = layout.local_shapes[0];
    for (const std::vector<int64_t>& shape : layout.local_shapes) {
      for (size_t dim = 0; dim < sizes.size(); ++dim) sizes[dim] = pick(sizes[dim], shape[dim]);
    }
    return shape_text(sizes);
  };
  if (layout.local_shapes.size() == 1) return shape_text(layout.local_shapes[0]);
  return fmt::format("{} to {}", all([](int64_t a, int64_t b) { return std::min(a, b); }),
                     all([](int64_t a, int64_t b) { return std::max(a, b); }));
}

std::string gradient_text(const ParamLayout& layout, const Mesh& mesh) {
  return layout.grad_reduce.empty() ? "no reduction" : html(to_text(layout.grad_reduce, mesh));
}

// Returns the facts of a group. Parameters with the same sharding can have different gradient reductions, so these are
// counted.
std::string facts_html(const Manifest& manifest, const ShardGroup& group) {
  const ParamLayout& layout = manifest.layouts[group.layout];
  const Mesh& mesh = manifest.mesh;
  std::vector<std::string> segments;
  for (const DimSegments& entry : layout.sharding.segments)
    segments.push_back(html(fmt::format("dim {}: {}", entry.dim, shape_text(entry.sizes))));
  std::map<std::string, uint64_t> gradients;
  for (const uint32_t param : group.params)
    ++gradients[gradient_text(layout_of(manifest, manifest.parameters[param]), mesh)];
  std::vector<std::string> gradient;
  for (const auto& [text, count] : gradients)
    gradient.push_back(gradients.size() == 1 ? text : fmt::format("{} ({})", text, grouped(count)));
  std::string out = "<dl class=\"facts\">\n" + description_item("Spec", code(to_text(layout.sharding.spec, mesh)));
  out += description_item("Placements", layout.placements ? code(to_text(*layout.placements))
                                                          : "torch has no placement for segments of unequal size");
  if (!segments.empty()) out += description_item("Segments", join(segments, ", ") + ", each sharded separately");
  out += description_item("Each rank", html(shard_count_text(layout)));
  out += description_item(
      "Copies", layout.replicas == 1
                    ? "every element on one rank"
                    : fmt::format("every element on {} ranks", grouped(static_cast<uint64_t>(layout.replicas))));
  return out + description_item("Gradient", join(gradient, "; "));
}

std::string group_html(const Manifest& manifest, const ShardGroup& group, size_t index, uint64_t& remaining_cells) {
  const ParamLayout& layout = manifest.layouts[group.layout];
  std::vector<std::string_view> paths;
  for (const uint32_t param : group.params) paths.push_back(path_of(manifest, manifest.parameters[param]));
  const std::vector<PathPattern> patterns = path_patterns(paths);
  std::string name = code(patterns[0].text);
  if (patterns.size() > 1)
    name += fmt::format(" <span class=\"muted\">and {} more</span>", grouped(patterns.size() - 1, "pattern"));
  std::string out = fmt::format(
      "<details class=\"group\"{}>\n<summary><span class=\"what\">{}</span> <span class=\"count\">{}, {}</span>",
      index < kExpandedGroups ? " open" : "", name, grouped(group.params.size(), "parameter"), bytes_html(group.bytes));
  out += fmt::format(
      " <span class=\"line2\">{} {} → {} on each rank, {}</span></summary>\n<div class=\"body\" id=\"shards-{}\">\n",
      html(shape_text(layout.shape)), html(dtypes()[layout.dtype].name), html(shard_count_text(layout)),
      html(to_text(layout.sharding.spec, manifest.mesh)), index);
  out += grid_html(layout, manifest.mesh, remaining_cells) + facts_html(manifest, group);
  return out + description_item("Parameters", patterns_html(patterns, kMaxShardPatterns, "parameter")) +
         "</dl>\n</div>\n</details>\n";
}

}  // namespace

bool render_shards(const Manifest& manifest, std::span<const ShardGroup> groups, const Sink& sink) {
  std::string head =
      "<section id=\"shards\">\n<h2>Shards</h2>\n<p>Parameters with the same sharding are grouped, the largest groups "
      "first. Each cell is a shard, <code>0:1024</code> are the indices 0 to 1023. The hue shows the coordinate on the "
      "first axis that shards the parameter, the lightness the others.</p>\n";
  if (groups.empty()) head += "<p>The manifest has no parameters.</p>\n";
  if (!sink(head)) return false;
  uint64_t remaining_cells = kMaxAllCells, rest = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i >= kMaxShardGroups)
      rest += groups[i].params.size();
    else if (!sink(group_html(manifest, groups[i], i, remaining_cells)))
      return false;
  }
  std::string tail;
  if (groups.size() > kMaxShardGroups)
    tail = fmt::format(
        "<p class=\"more\">And {} in {} more. <code>tpplan show MANIFEST --parameter PATH</code> shows each of "
        "them.</p>\n",
        grouped(rest, "parameter"), grouped(groups.size() - kMaxShardGroups, "group"));
  return sink(tail + "</section>\n");
}

}  // namespace tpplan
