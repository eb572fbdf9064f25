#include "report/render_compiled.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "cost/layer_path.h"

namespace tpplan {
namespace {

// Equal calls of the layers of a stack.
struct CompiledRow {
  const CompiledCall* call = nullptr;  // the first of them
  LayerPath path;                      // of its module
  std::vector<int64_t> numbers;        // of the layers; empty outside of layers
  uint64_t count = 0;
  double wire = 0;
};

std::string call_axes_text(const CompiledCall& call) { return escape_for_terminal(join(call.axes, ",")); }

std::vector<CompiledRow> compiled_rows(std::span<const CompiledCall> calls) {
  std::vector<CompiledRow> rows;
  std::map<std::tuple<bool, std::string_view, std::string, std::string_view, bool, std::string_view, std::string_view,
                      int64_t, int64_t, std::string_view>,
           size_t>
      index;
  for (const CompiledCall& call : calls) {
    const LayerPath path = layer_path(call.module);
    const auto [entry, is_new] =
        index.try_emplace({call.backward, call.kind, join(call.axes, ","), path.stack, path.number >= 0, path.below,
                           call.operation, call.bytes, call.times, call.rule},
                          rows.size());
    if (is_new) rows.push_back({.call = &call, .path = path, .numbers = {}});
    CompiledRow& row = rows[entry->second];
    ++row.count;
    row.wire += call.wire;
    if (path.number >= 0) row.numbers.push_back(path.number);
  }
  for (CompiledRow& row : rows) {
    std::sort(row.numbers.begin(), row.numbers.end());
    row.numbers.erase(std::unique(row.numbers.begin(), row.numbers.end()), row.numbers.end());
  }
  return rows;
}

std::string call_module_text(const CompiledRow& row) {
  if (row.numbers.empty()) return row.call->module;
  return join_path(layers_text(row.path.stack, row.numbers), row.path.below);
}

enum CompiledColumn : size_t {
  kCallPhase,
  kCallKind,
  kCallAxes,
  kCallPlace,
  kCallCount,
  kCallBytes,
  kCallWire,
  kCallRule,
  kCallColumns
};
using CompiledCells = std::array<std::string, kCallColumns>;

bool is_number_column(size_t column) { return column == kCallCount || column == kCallBytes || column == kCallWire; }

CompiledCells compiled_cells(const CompiledRow& row) {
  const CompiledCall& call = *row.call;
  const std::string module = call_module_text(row);
  CompiledCells cells;
  cells[kCallPhase] = call.backward ? "bwd" : "fwd";
  cells[kCallKind] = call.kind;
  cells[kCallAxes] = call_axes_text(call);
  cells[kCallPlace] =
      escape_for_terminal(module.empty() ? call.operation : fmt::format("{}: {}", module, call.operation));
  cells[kCallCount] = fmt::format("x{}", row.count * static_cast<uint64_t>(call.times));
  cells[kCallBytes] = human_bytes(static_cast<uint64_t>(call.bytes));
  cells[kCallWire] = human_bytes_near(row.wire);
  cells[kCallRule] = call.rule.empty() ? "" : escape_for_terminal(fmt::format("\"{}\"", call.rule));
  return cells;
}

double wire_of_pass(std::span<const CompiledCall> calls, bool backward) {
  double wire = 0;
  for (const CompiledCall& call : calls) wire += call.backward == backward ? call.wire : 0;
  return wire;
}

}  // namespace

std::string render_compiled(std::span<const CompiledCall> calls, std::string_view uncovered,
                            const TerminalStyle& look) {
  const std::string note = uncovered.empty() ? "" : fmt::format("not covered: {}\n", escape_for_terminal(uncovered));
  if (calls.empty()) return "collectives of a step as XLA inserts them: none\n" + note;
  std::vector<CompiledCells> table{{"", "kind", "axes", "module: operation", "count", "bytes", "wire", "rule"}};
  for (const CompiledRow& row : compiled_rows(calls)) table.push_back(compiled_cells(row));
  std::array<size_t, kCallColumns> widths{};
  for (const CompiledCells& cells : table) {
    for (size_t i = 0; i < kCallColumns; ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string out =
      paint("collectives of a step as XLA inserts them, one rank, about:", kBold, look.color) + "\n" + note;
  for (const CompiledCells& cells : table) {
    std::string line;
    for (size_t i = 0; i < kCallColumns; ++i)
      line += is_number_column(i) ? fmt::format(" {:>{}} ", cells[i], widths[i])
                                  : fmt::format(" {:<{}}", cells[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  const double forward = wire_of_pass(calls, false), backward = wire_of_pass(calls, true);
  out += fmt::format("a rank sends about {} in a step", human_bytes_near(forward + backward));
  return out + (backward > 0
                    ? fmt::format(": forward {}, backward {}\n", human_bytes_near(forward), human_bytes_near(backward))
                    : "\n");
}

void write_compiled(JsonWriter& json, std::span<const CompiledCall> calls, std::string_view uncovered) {
  write_key(json, "compiled");
  begin_array(json);
  for (const CompiledCall& call : calls) {
    next_line(json, 2);
    begin_object(json);
    write_field(json, "phase", call.backward ? "backward" : "forward");
    write_field(json, "kind", call.kind);
    write_key(json, "axes");
    write_array(json, call.axes);
    write_field(json, "module", call.module);
    write_field(json, "operation", call.operation);
    write_field(json, "bytes", call.bytes);
    write_field(json, "times", call.times);
    if (!call.parameter.empty()) write_field(json, "parameter", call.parameter);
    if (!call.rule.empty()) write_field(json, "rule", call.rule);
    end_object(json);
  }
  end_array(json);
  write_field(json, "wire",
              static_cast<uint64_t>(std::min(wire_of_pass(calls, false) + wire_of_pass(calls, true), 1e18)));
  if (!uncovered.empty()) write_field(json, "uncovered", uncovered);
}

}  // namespace tpplan
