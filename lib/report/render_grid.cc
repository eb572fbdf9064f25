#include "report/render_grid.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "report/memory_text.h"
#include "report/shard_grid.h"

namespace tpplan {
namespace {

// Limits, with the rest counted in a line: shards along a dim, ranks and rank ranges of a tile, rows of a table,
// tables.
constexpr int64_t kMaxGridShards = 256, kMaxCellRanks = 64;
constexpr size_t kMaxTileIntervals = 3, kMaxGridRows = 64, kMaxGridTables = 8;
constexpr size_t kMostLinesBetween = 8;  // larger tables have no lines between rows

struct Lines {
  std::string_view flat, upright, corners[3][3];  // corners of the top, inner and bottom lines
};
constexpr Lines kBoxes = {"─", "│", {{"┌", "┬", "┐"}, {"├", "┼", "┤"}, {"└", "┴", "┘"}}};
constexpr Lines kPlain = {"-", "|", {{"+", "+", "+"}, {"+", "+", "+"}, {"+", "+", "+"}}};

// The texts of one table. `heads` and `sides` are the index ranges of columns and rows.
struct Table {
  std::vector<std::string> heads, sides;
  std::vector<std::vector<std::string>> cells;
  size_t more_rows = 0, more_columns = 0;
};

Table make_table(const ParamLayout& layout, const Mesh& mesh, const ShardGrid& grid, GridSlice slice,
                 const GridOptions& options) {
  Table table;
  const size_t rows = table_extent(grid, slice.down), columns = table_extent(grid, slice.across);
  const size_t most_columns = options.width / 4;  // a column has at least four characters
  table.more_rows = rows - std::min(rows, kMaxGridRows);
  table.more_columns = columns - std::min(columns, most_columns);
  for (size_t c = 0; slice.across && c < columns - table.more_columns; ++c)
    table.heads.push_back(interval_text(grid.intervals[*slice.across][c]));
  for (size_t r = 0; r < rows - table.more_rows; ++r) {
    if (slice.down) slice.at[*slice.down] = r;
    table.sides.push_back(slice.down ? interval_text(grid.intervals[*slice.down][r]) : "");
    table.cells.emplace_back();
    for (size_t c = 0; c < columns - table.more_columns; ++c) {
      if (slice.across) slice.at[*slice.across] = c;
      const CellRanks ranks = ranks_of_cell(layout, mesh, shards_at(grid, slice), kMaxCellRanks);
      table.cells.back().push_back(rank_ranges_text(ranks.ranks, ranks.count, kMaxTileIntervals, "-"));
    }
  }
  return table;
}

size_t widest(const std::vector<std::string>& texts) {
  size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  return width;
}

// Removes the columns that exceed the width, except the first one. Returns the widths of the others.
std::vector<size_t> fit_columns(Table& table, size_t width) {
  std::vector<size_t> widths;
  size_t used = widest(table.sides) + 4;
  for (size_t c = 0; c < table.cells[0].size(); ++c) {
    size_t column = c < table.heads.size() ? table.heads[c].size() : 0;
    for (const std::vector<std::string>& row : table.cells) column = std::max(column, row[c].size());
    used += column + 3;
    if (c > 0 && used > width) break;
    widths.push_back(column);
  }
  table.more_columns += table.cells[0].size() - widths.size();
  return widths;
}

std::string line_text(const Lines& lines, size_t which, size_t indent, const std::vector<size_t>& widths) {
  std::string out(indent, ' ');
  for (size_t c = 0; c < widths.size(); ++c) {
    out += lines.corners[which][c == 0 ? 0 : 1];
    for (size_t i = 0; i < widths[c] + 2; ++i) out += lines.flat;
  }
  return fmt::format("{}{}\n", out, lines.corners[which][2]);
}

std::string table_text(Table table, const GridOptions& options) {
  const std::vector<size_t> widths = fit_columns(table, options.width);
  const Lines& lines = options.ascii ? kPlain : kBoxes;
  const size_t side = widest(table.sides), indent = side + 3;
  std::string out;
  if (!table.heads.empty()) {
    std::string heads(indent, ' ');
    for (size_t c = 0; c < widths.size(); ++c) heads += fmt::format("  {:<{}}", table.heads[c], widths[c] + 1);
    heads.erase(heads.find_last_not_of(' ') + 1);
    out += heads + "\n";
  }
  out += line_text(lines, 0, indent, widths);
  for (size_t r = 0; r < table.cells.size(); ++r) {
    if (r > 0 && table.cells.size() <= kMostLinesBetween) out += line_text(lines, 1, indent, widths);
    out += fmt::format("  {:>{}} {}", table.sides[r], side, lines.upright);
    for (size_t c = 0; c < widths.size(); ++c)
      out += fmt::format(" {:<{}} {}", table.cells[r][c], widths[c], lines.upright);
    out += "\n";
  }
  out += line_text(lines, 2, indent, widths);
  std::vector<std::string> more;
  if (table.more_rows > 0) more.push_back(counted(table.more_rows, "row"));
  if (table.more_columns > 0) more.push_back(counted(table.more_columns, "column"));
  if (!more.empty())
    out += fmt::format("  and {} more; --rank RANK prints the shards of a rank\n", join(more, " and "));
  return out;
}

}  // namespace

std::string render_grid(const ParamLayout& layout, const Mesh& mesh, const GridOptions& options) {
  const ShardGrid grid = make_shard_grid(layout, mesh, kMaxGridShards);
  if (grid.cell_count <= 1) return "";
  std::string out;
  GridSlice slice = first_slice(grid);
  if (slice.across && table_extent(grid, slice.down) == 1)
    std::swap(slice.down, slice.across);  // one column, not one row
  uint64_t tables = 1;
  for (size_t dim = 0; dim < grid.intervals.size(); ++dim) {
    if (slice.down != dim && slice.across != dim) tables *= grid.intervals[dim].size();
  }
  for (size_t drawn = 0; drawn < kMaxGridTables; ++drawn) {
    out += fmt::format("  {}", caption_text(grid, slice));
    if (slice.across) out += fmt::format(", dim {} down, dim {} across", *slice.down, *slice.across);
    out += "\n" + table_text(make_table(layout, mesh, grid, slice, options), options);
    if (!next_slice(grid, slice)) break;
  }
  if (tables > kMaxGridTables)
    out += fmt::format("  and {} more; --rank RANK prints the shards of a rank\n",
                       counted(tables - kMaxGridTables, "table"));
  if (!grid.complete)
    out += fmt::format("  these are the first of its shards: it has more than {} along a dim\n", kMaxGridShards);
  return out;
}

}  // namespace tpplan
