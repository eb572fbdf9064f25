#include "report/render_costs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "report/render_answer.h"
#include "report/render_compiled.h"
#include "report/render_run.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

std::string_view phase_name(bool backward) { return backward ? "backward" : "forward"; }

std::string bold(std::string_view text, const TerminalStyle& look) { return paint(text, kBold, look.color); }

// The axis and the dtype if all rows share them. The heading then has them instead of each row.
struct Common {
  bool one_axis = true, one_dtype = true;
  const CollectiveCall* call = nullptr;  // the first one
};

Common common_of(const CollectiveMeasure& measure) {
  Common common;
  for (const CallGroup& group : measure.groups) {
    for (const auto* rows : {&group.forward, &group.backward}) {
      for (const CallRow& row : *rows) {
        if (common.call == nullptr) common.call = row.call;
        common.one_axis = common.one_axis && row.call->axis == common.call->axis;
        common.one_dtype = common.one_dtype && row.call->dtype == common.call->dtype;
      }
    }
  }
  return common;
}

std::string axis_text(const Mesh& mesh, AxisId axis) {
  return fmt::format("{}={}", axis_name(mesh, axis), mesh.axes[axis].size);
}

std::string heading(const Costs& costs, const Common& common) {
  std::vector<std::string> words;
  if (costs.batch > 0)
    words.push_back(fmt::format("batch {}{}", costs.batch, costs.has_data_axes ? " on each data rank" : ""));
  if (costs.sequence > 0) words.push_back(fmt::format("sequence {}", costs.sequence));
  if (common.one_axis) words.push_back("over " + axis_text(costs.mesh, common.call->axis));
  if (common.one_dtype) words.push_back("in " + escape_for_terminal(common.call->dtype));
  return fmt::format("collectives of a step, rank 0: {}", join(words, ", "));
}

std::string unlisted_lines(const Costs& costs) {
  std::string out;
  for (const std::string& words : unlisted_words(costs.mesh, costs.unlisted, costs.has_remat, costs.units_axis))
    out += fmt::format("not listed: {}\n", words);
  return out;
}

// The columns of the table. Each is as wide as its widest text, but the column of modules uses the remaining width.
enum CostsColumn : size_t { kPhase, kKind, kAxis, kModules, kShape, kDtype, kPayload, kWire, kColumns };
using Cells = std::array<std::string, kColumns>;

struct CostsTable {
  std::vector<Cells> rows;
  std::array<size_t, kColumns> widths{};
};

Cells cells_of(const CallRow& row, bool in_layer, const Costs& costs, const Common& common) {
  Cells cells;
  cells[kPhase] = row.call->backward ? "bwd" : "fwd";
  cells[kKind] = fmt::format("{}{}", to_text(row.call->kind), row.call->hidden ? " (hidden)" : "");
  if (!common.one_axis) cells[kAxis] = axis_text(costs.mesh, row.call->axis);
  const std::string modules = modules_text(row.modules), &operation = row.call->operation;
  cells[kModules] = escape_for_terminal(modules.empty() ? in_layer ? "the layer" : "the model" : modules);
  if (!operation.empty()) cells[kModules] += escape_for_terminal(": " + operation);
  if (row.sums.calls != row.modules.size()) cells[kModules] += fmt::format(" x{}", row.sums.calls);
  cells[kShape] = shape_text(row.call->shape);
  if (!common.one_dtype) cells[kDtype] = escape_for_terminal(row.call->dtype);
  cells[kPayload] = human_bytes(row.sums.payload);
  cells[kWire] = human_bytes(row.sums.wire);
  return cells;
}

std::string padded(std::string_view text, size_t width, bool right) {
  const std::string blanks(width - std::min(width, text.size()), ' ');
  return right ? blanks + std::string(text) : std::string(text) + blanks;
}

// Returns the number of spaces before a column: one before the first two, otherwise two.
size_t spaces_before(size_t column) { return column <= kKind ? 1 : 2; }

// Returns the non-empty columns of a row from `begin` to `end`.
std::string line_of(const CostsTable& table, const Cells& cells, size_t begin, size_t end) {
  std::string out;
  for (size_t i = begin; i < end; ++i) {
    if (table.widths[i] > 0)
      out += std::string(spaces_before(i), ' ') + padded(cells[i], table.widths[i], i >= kPayload);
  }
  return out;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

size_t width_of(const CostsTable& table, size_t begin, size_t end) {
  size_t width = 0;
  for (size_t i = begin; i < end; ++i) width += table.widths[i] > 0 ? table.widths[i] + spaces_before(i) : 0;
  return width;
}

// Limits the column of modules to the width that the other columns leave. row_text puts longer names on a separate
// line, with the numbers on the next line.
void fit(CostsTable& table, size_t width) {
  constexpr size_t kLeast = 8;
  const size_t others = width_of(table, 0, kColumns) - table.widths[kModules];
  table.widths[kModules] = std::min(table.widths[kModules], width > others + kLeast ? width - others : kLeast);
}

std::string row_text(const CostsTable& table, const Cells& cells, size_t width) {
  if (cells[kModules].size() <= table.widths[kModules] && width_of(table, 0, kColumns) <= width)
    return trimmed(line_of(table, cells, 0, kColumns));
  const std::string numbers = line_of(table, cells, kShape, kColumns);
  const size_t indent = std::min(width_of(table, 0, kShape), width > numbers.size() ? width - numbers.size() : 0);
  return trimmed(line_of(table, cells, 0, kModules) + "  " + cells[kModules]) +
         trimmed(std::string(indent, ' ') + numbers);
}

// Returns a line with a text and the columns of bytes.
std::string bytes_line(const CostsTable& table, const std::string& head, const Cells& cells, size_t width) {
  const std::string numbers = line_of(table, cells, kPayload, kColumns);
  const size_t head_width = std::min(width_of(table, 0, kPayload), width > numbers.size() ? width - numbers.size() : 0);
  return padded(head, head_width, false) + numbers + '\n';
}

Cells cells_of(const CallSums& sums) {
  Cells cells;
  cells[kPayload] = human_bytes(sums.payload);
  cells[kWire] = human_bytes(sums.wire);
  return cells;
}

// Returns a line of sums, such as " 560 calls in all 80" with the columns of bytes.
std::string sums_line(const CostsTable& table, std::string_view head, const CallSums& sums, std::string_view more,
                      size_t width) {
  return bytes_line(table, fmt::format(" {}{}{}", head, counted(sums.calls, "call"), more), cells_of(sums), width);
}

void write_sums(JsonWriter& json, const CallSums& sums) {
  write_field(json, "calls", sums.calls);
  write_field(json, "payload", sums.payload);
  write_field(json, "wire", sums.wire);
}

// Writes the memory and the time of the step, if they are known.
void write_step_numbers(JsonWriter& json, const Costs& costs) {
  if (costs.run != nullptr) {
    next_line(json, 1);
    write_key(json, "run");
    write_run(json, *costs.run);
  }
  if (costs.memory != nullptr && !costs.memory->overflow) {
    next_line(json, 1);
    write_key(json, "memory");
    write_memory(json, *costs.memory);
  }
  if (costs.answer != nullptr) write_answer(json, *costs.answer);
  if (costs.time != nullptr) {
    next_line(json, 1);
    write_key(json, "time");
    write_time(json, *costs.time, costs.mesh, *costs.topology);
  }
}

void write_row(JsonWriter& json, const CallRow& row, const Mesh& mesh) {
  begin_object(json);
  write_field(json, "phase", phase_name(row.call->backward));
  write_field(json, "kind", to_text(row.call->kind));
  write_field(json, "axis", mesh.axes[row.call->axis].name);
  write_key(json, "modules");
  write_array(json, row.modules);
  write_key(json, "shape");
  write_array(json, row.call->shape);
  write_field(json, "dtype", row.call->dtype);
  write_field(json, "bytes", row.call->bytes);
  if (row.call->hidden) write_field(json, "hidden", true);
  if (!row.call->operation.empty()) write_field(json, "operation", row.call->operation);
  write_sums(json, row.sums);
  end_object(json);
}

}  // namespace

std::vector<std::string> unlisted_words(const Mesh& mesh, std::span<const AxisId> unlisted, bool has_remat,
                                        AxisId units_axis) {
  std::vector<std::string> words, axes;
  for (const AxisId axis : unlisted) axes.push_back(axis_text(mesh, axis));
  if (!axes.empty())
    words.push_back(fmt::format("calls over {}, which the wrapper of the model makes (FSDP2, DDP)", join(axes, ", ")));
  if (has_remat) words.emplace_back("calls that `remat` repeats in the backward pass");
  if (units_axis != kNoAxis && mesh.axes[units_axis].size > 1 &&
      std::ranges::find(unlisted, units_axis) == unlisted.end())
    words.emplace_back("calls that gather `fsdp.units` again in the backward pass");
  return words;
}

// Formats all rows in a first pass to find the column widths, and writes them in a second pass; `at` is the row index.
std::string render_costs(const Costs& costs, const TerminalStyle& look) {
  if (costs.is_compiled) return render_compiled(costs.compiled, costs.uncovered, look);
  if (!costs.reason.empty())
    return fmt::format("no forecast of collectives: {}\n{}", costs.reason,
                       costs.help.empty() ? "" : fmt::format("  = help: {}\n", costs.help));
  const CollectiveMeasure& measure = costs.measure;
  if (measure.groups.empty()) return "collectives of a step: none\n" + unlisted_lines(costs);
  if (measure.overflow) return "no forecast of collectives: the sums of bytes exceed 64 bits\n";
  const Common common = common_of(measure);
  CostsTable table;
  Cells heads;
  heads[kPayload] = "payload";
  heads[kWire] = "wire";
  const auto widen = [&table](const Cells& cells) {
    for (size_t i = 0; i < kColumns; ++i) table.widths[i] = std::max(table.widths[i], cells[i].size());
  };
  widen(heads);
  for (const CallSums& sums : {measure.forward, measure.backward, measure.total}) {
    widen(cells_of(sums));
  }
  for (const CallGroup& group : measure.groups) {
    for (const auto* rows : {&group.forward, &group.backward}) {
      for (const CallRow& row : *rows) {
        table.rows.push_back(cells_of(row, !group.layers.empty(), costs, common));
        widen(table.rows.back());
      }
    }
  }
  fit(table, look.width);
  std::string out = bold(heading(costs, common), look) + '\n';
  out += "wire: in a ring, 2(n-1)/n for all_reduce, (n-1)/n for the others (nccl-tests)\n";
  if (measure.hidden.calls > 0)
    out += "hidden: no rule requests it; DTensor redistributes operands that do not match\n";
  out += unlisted_lines(costs);
  out += bytes_line(table, "", heads, look.width);
  size_t at = 0;
  for (const CallGroup& group : measure.groups) {
    std::string title = group.layers.empty() ? "outside layers" : escape_for_terminal(group.layers);
    if (group.count > 1) title += fmt::format(", {} layers, each", group.count);
    out += bold(title, look) + '\n';
    const size_t rows = group.forward.size() + group.backward.size();
    for (const size_t end = at + rows; at < end; ++at) out += row_text(table, table.rows[at], look.width);
    if (rows > 1) out += sums_line(table, "", group.sums, "", look.width);
    if (group.count == 1) continue;
    const CallSums layers{group.sums.calls * group.count, group.sums.payload * group.count,
                          group.sums.wire * group.count};
    out += sums_line(table, "", layers, fmt::format(" in all {}", group.count), look.width);
  }
  out += bold("full step", look) + '\n' + sums_line(table, "forward   ", measure.forward, "", look.width);
  if (measure.backward.calls > 0)
    out += sums_line(table, "backward  ", measure.backward, "", look.width) +
           sums_line(table, "together  ", measure.total, "", look.width);
  if (measure.hidden.calls > 0) out += sums_line(table, "hidden    ", measure.hidden, "", look.width);
  return out;
}

void write_costs(JsonWriter& json, const Costs& costs) {
  begin_object(json);
  if (costs.is_compiled) {
    write_compiled(json, costs.compiled, costs.uncovered);
    write_step_numbers(json, costs);
    return end_object(json);
  }
  if (!costs.reason.empty() || costs.measure.overflow) {
    write_field(json, "reason", costs.reason.empty() ? "the sums of bytes exceed 64 bits" : costs.reason);
    if (!costs.help.empty()) write_field(json, "help", costs.help);
    write_step_numbers(json, costs);
    return end_object(json);
  }
  if (costs.batch > 0) write_field(json, "batch", costs.batch);
  if (costs.sequence > 0) write_field(json, "sequence", costs.sequence);
  if (!costs.unlisted.empty()) {
    write_key(json, "unlisted");
    write_array(json, costs.unlisted, [&](AxisId axis) { write_value(json, costs.mesh.axes[axis].name); });
  }
  write_key(json, "groups");
  begin_array(json);
  for (const CallGroup& group : costs.measure.groups) {
    next_line(json, 2);
    begin_object(json);
    if (!group.layers.empty()) write_field(json, "layers", group.layers);
    write_field(json, "count", group.count);
    write_sums(json, group.sums);
    write_key(json, "rows");
    begin_array(json);
    for (const auto* rows : {&group.forward, &group.backward}) {
      for (const CallRow& row : *rows) {
        next_line(json, 3);
        write_row(json, row, costs.mesh);
      }
    }
    end_array(json);
    end_object(json);
  }
  end_array(json);
  for (const auto& [name, sums] :
       {std::pair{"forward", costs.measure.forward}, std::pair{"backward", costs.measure.backward},
        std::pair{"total", costs.measure.total}, std::pair{"hidden", costs.measure.hidden}}) {
    next_line(json, 1);
    write_key(json, name);
    begin_object(json);
    write_sums(json, sums);
    end_object(json);
  }
  write_step_numbers(json, costs);
  end_object(json);
}

}  // namespace tpplan
