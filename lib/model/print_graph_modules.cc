#include "model/print_graph_modules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "model/graph_words.h"

namespace tpplan {
namespace {

constexpr size_t kMostSkips = 3;  // non-tensor arguments that are written as single `_`

// Returns the name that the reader gives to a value inside a module without `as`: the keyword's, or the name outside.
std::string default_name(const GraphPrinter& p, const Crossing& crossing) {
  const bool is_keyword = crossing.depth == 1 && is_value_name(crossing.key);
  return is_keyword ? std::string(crossing.key) : graph_name_of(p, crossing.from);
}

// Returns the preferred name of a value after a boundary.
std::string wanted_name(const GraphPrinter& p, const GraphNode& node, const Crossing& crossing) {
  const std::string by_default = default_name(p, crossing);
  const std::string_view module = last_name_of_path(p.graph.strings[node.name]);
  const bool is_of_keyword = crossing.depth == 1 && is_value_name(crossing.key);
  if (node.kind == NodeKind::Exit && !is_of_keyword && !module.empty()) return identifier_of(module);
  return is_identifier(by_default) ? by_default : identifier_of(last_name_of_path(by_default));
}

void append_crossing(GraphPrinter& p, std::string& line, const GraphNode& node, const Crossing& crossing) {
  const uint32_t home = p.layout.frame_of[crossing.to];
  append_graph_value(p, line, crossing.from);
  const Tick read = p.tick++;
  if (!is_counting(p)) {
    const NameScope scope = scope_of(p, home);
    const std::string by_default = default_name(p, crossing);
    const bool is_unused = last_use(p.uses, crossing.to) == 0;
    const bool uses_default = is_identifier(by_default) && is_free(*p.names, by_default, scope, read);
    if (is_unused && !uses_default) {
      line += " as _";
    } else {
      const bool is_permanent = is_used_outside(p, crossing.to, home);
      const std::string wanted = is_unused ? by_default : wanted_name(p, node, crossing);
      name_value(*p.names, crossing.to, wanted, scope, p.tick, is_permanent);
      if (graph_name_of(p, crossing.to) != by_default) line += " as " + graph_name_of(p, crossing.to);
    }
    const GraphValue &from = p.graph.values[crossing.from], &to = p.graph.values[crossing.to];
    if (from.dtype != to.dtype || from.requires_grad != to.requires_grad)
      line += ": " + graph_type_text(p, to, from.requires_grad);
  }
  ++p.tick;
}

// Appends `_, _`, or `_ * 4`, for arguments that are not tensors.
void append_skips(std::string& line, int64_t count) {
  if (count <= 0) return;
  if (!line.ends_with('(')) line += ", ";
  if (count > static_cast<int64_t>(kMostSkips)) {
    line += fmt::format("_ * {}", count);
    return;
  }
  line += '_';
  while (--count > 0) line += ", _";
}

bool is_same_argument(const Crossing& a, const Crossing& b) {
  return a.position == b.position && a.key == b.key && a.parameter == b.parameter;
}

// Appends the values of one argument: one value, or those of a nested tuple. Returns the index of the next crossing.
uint32_t append_argument(GraphPrinter& p, std::string& line, const GraphNode& node, uint32_t at) {
  const auto& crossings = p.graph.crossings;
  const Crossing& first = crossings[at];
  uint32_t depth = 1;
  for (const uint32_t begin = at; at < node.crossing_end; ++at) {
    const Crossing& crossing = crossings[at];
    if (at > begin && (depth == 1 || crossing.depth < 2 || !is_same_argument(first, crossing))) break;
    for (; depth > crossing.depth; --depth) line += ')';
    if (at > begin) line += ", ";
    for (; depth < crossing.depth; ++depth) line += '(';
    append_crossing(p, line, node, crossing);
  }
  for (; depth > 1; --depth) line += ')';
  return at;
}

// True if an argument at or after `at` is positional. If none is, the skipped positions are printed before the
// keywords.
bool has_positional_after(const OpGraph& graph, const GraphNode& node, uint32_t at) {
  return std::any_of(graph.crossings.begin() + at, graph.crossings.begin() + node.crossing_end,
                     [](const Crossing& crossing) { return crossing.position >= 0; });
}

// Appends arguments or results in parentheses, up to a result at depth 0. Returns the index of the next crossing.
uint32_t append_list(GraphPrinter& p, std::string& line, const GraphNode& node, uint32_t at) {
  const bool is_exit = node.kind == NodeKind::Exit;
  int64_t position = 0;
  size_t items = 0;
  line += '(';
  while (at < node.crossing_end && p.graph.crossings[at].depth > 0) {
    const Crossing& crossing = p.graph.crossings[at];
    const bool is_in_order = crossing.key.empty() && crossing.position >= position && crossing.parameter < 0 &&
                             (is_exit || crossing.position < static_cast<int64_t>(node.positional));
    if (is_in_order) append_skips(line, crossing.position - position);
    if (crossing.position < 0 && !is_exit && !has_positional_after(p.graph, node, at)) {
      append_skips(line, static_cast<int64_t>(node.positional) - position);
      position = std::max(position, static_cast<int64_t>(node.positional));
    }
    if (!line.ends_with('(')) line += ", ";
    if (is_in_order) {
      position = crossing.position + 1;
      ++items;
    } else {
      line += crossing.position >= 0 ? std::to_string(crossing.position) : operand_text(crossing.key);
      if (crossing.parameter >= 0) line += fmt::format("@{}", crossing.parameter);
      line += '=';
    }
    at = append_argument(p, line, node, at);
  }
  if (!is_exit) append_skips(line, static_cast<int64_t>(node.positional) - position);
  if (is_exit && items == 1 && position == 1) line += ',';
  line += ')';
  return at;
}

void print_nonlocals(GraphPrinter& p, uint32_t outer) {
  if (is_counting(p) || p.nonlocals[p.frame].empty()) return;
  std::string line = "nonlocal ";
  for (const ValueId value : p.nonlocals[p.frame]) {
    if (value != p.nonlocals[p.frame].front()) line += ", ";
    line += graph_name_of(p, value);
    rebind_outer_name(*p.names, value, scope_of(p, outer));
  }
  end_graph_line(p, line);
}

}  // namespace

void print_graph_enter(GraphPrinter& p, const GraphNode& node, uint32_t index) {
  const std::string_view path = p.graph.strings[node.name];
  std::string line = fmt::format("with {}", path.empty() ? "" : path_text(path));
  const auto frame = static_cast<uint32_t>(p.layout.frame_at[index + 1]);
  p.frame = frame;
  if (node.crossing_begin < node.crossing_end || node.positional > 0) append_list(p, line, node, node.crossing_begin);
  if (node.no_grad) line += ", no_grad";
  line += ':';
  const ModuleId module = find_module(p.model, path);
  const std::string_view type = module == kNone ? std::string_view{} : type_of(p.model, p.model.modules[module]);
  if (!type.empty()) line += fmt::format("  # {}", is_identifier(type) ? std::string(type) : quoted_text(type, '\''));
  end_graph_line(p, line);
  ++p.depth;
}

void print_graph_exit(GraphPrinter& p, const GraphNode& node) {
  const uint32_t outer = p.layout.frames[p.frame].parent;
  print_nonlocals(p, outer);
  for (uint32_t at = node.crossing_begin; at < node.crossing_end;) {
    std::string line = "return ";
    if (p.graph.crossings[at].depth == 0)
      append_crossing(p, line, node, p.graph.crossings[at++]);
    else
      at = append_list(p, line, node, at);
    end_graph_line(p, line);
  }
  if (is_counting(p))
    p.frame_ends[p.frame] = p.tick;
  else
    end_names(*p.names, p.layout.frames[p.frame].depth);
  ++p.tick;
  p.frame = outer;
  --p.depth;
}

}  // namespace tpplan
