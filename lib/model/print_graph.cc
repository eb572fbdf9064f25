#include "model/print_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "model/graph_layout.h"
#include "model/graph_words.h"
#include "model/size_ops.h"
#include "model/value_names.h"
#include "sharding/dtype.h"

namespace tpplan {
namespace {

constexpr size_t kMostSkips = 3;  // non-tensor arguments that are written as single `_`

// The form of an input, parameter, buffer or constant: its path, its path with a declaration, or a name.
enum class LeafForm : uint8_t { None, Path, DeclaredPath, Named };

// The graph is printed in two identical passes. The first pass, without names, collects the uses of each value.
struct GraphPrinter {
  const ModelGraph& model;
  const OpGraph& graph;
  const GraphLayout& layout;
  const Sink& sink;
  ValueUses& uses;
  std::vector<Tick>& frame_ends;                  // by frame
  std::vector<uint32_t>& first_use;               // by leaf: index of a statement; kNoId: unused
  const std::vector<uint32_t>& leaf_of;           // by value; kNoId: none
  const std::vector<LeafForm>& forms;             // by leaf
  ValueNames* names = nullptr;                    // nullptr in the first pass
  std::vector<std::vector<ValueId>> nonlocals{};  // by frame: values used outside without being returned
  std::vector<std::vector<uint32_t>> declared{};  // by statement: leaves to declare above it
  std::vector<uint32_t> size_numbers{};           // by size entry: n of its name `sn`; 0: no name
  Tick tick = 0;
  uint32_t statement = 0;
  uint32_t depth = 0;  // of `frame`
  uint32_t frame = 0;
  std::string out{};
  bool has_failed = false;
};

bool is_counting(const GraphPrinter& p) { return p.names == nullptr; }

NameScope scope_of(const GraphPrinter& p, uint32_t frame) {
  return {.depth = p.layout.frames[frame].depth, .end = frame == 0 ? kNoTick : p.frame_ends[frame]};
}

void end_line(GraphPrinter& p, std::string_view line) {
  if (is_counting(p)) return;
  p.out.append(2 * size_t{p.depth}, ' ').append(line) += '\n';
  if (p.out.size() < size_t{64} << 10) return;
  if (!p.has_failed) p.has_failed = !p.sink(p.out);
  p.out.clear();
}

// ---- types and names ----

std::string type_text(const GraphPrinter& p, const GraphValue& value, bool may_have_grad) {
  const GraphShape shape = p.graph.shapes[value.shape];
  const std::string_view dtype = p.graph.strings[value.dtype];
  const auto sizes = p.graph.shape_sizes.begin() + shape.begin;
  std::string out = fmt::format("{}[{}]", path_text(dtype), fmt::join(sizes, sizes + shape.ndim, ", "));
  if (value.requires_grad != (may_have_grad && has_gradients(dtype))) out += value.requires_grad ? " grad" : " no_grad";
  return out;
}

// Returns the current name of a value.
std::string name_of(const GraphPrinter& p, ValueId value) {
  const uint32_t leaf = p.leaf_of[value];
  if (leaf != kNoId && p.forms[leaf] != LeafForm::Named)
    return operand_text(p.graph.strings[p.graph.leaves[leaf].path]);
  return p.names->names[value] == nullptr ? "_" : *p.names->names[value];
}

void append_value(GraphPrinter& p, std::string& line, ValueId value) {
  if (!is_counting(p)) {
    line += name_of(p, value);
    return;
  }
  add_use(p.uses, value, p.tick);
  const uint32_t leaf = p.leaf_of[value];
  if (leaf != kNoId && p.first_use[leaf] == kNoId) p.first_use[leaf] = p.statement - 1;
}

// Returns the last part of a path that is not a number: `layers` of `model.layers.0`.
std::string_view last_name(std::string_view path) {
  while (!path.empty()) {
    const size_t at = path.find_last_of("./");
    const std::string_view name = at == std::string_view::npos ? path : path.substr(at + 1);
    if (!name.empty() && !is_digits(name)) return name;
    path = path.substr(0, at == std::string_view::npos ? 0 : at);
  }
  return path;
}

bool is_used_outside(const GraphPrinter& p, ValueId value, uint32_t frame) {
  return frame != 0 && last_use(p.uses, value) > p.frame_ends[frame];
}

// Binds a name to a result of an operation and appends it to the line.
void bind_result(GraphPrinter& p, std::string& line, ValueId value, std::string_view op) {
  if (is_counting(p)) return;
  if (last_use(p.uses, value) != 0)
    name_value(*p.names, value, identifier_of(op), scope_of(p, p.frame), p.tick, is_used_outside(p, value, p.frame));
  line += name_of(p, value);
}

// ---- sizes ----

void append_size(GraphPrinter& p, std::string& line, const SizeOperand& operand, bool is_nested);

// Appends the expression of a size, even if the size has a name: its `size` line needs the expression.
void append_entry(GraphPrinter& p, std::string& line, const SizeEntry& entry, bool is_nested) {
  if (entry.op == SizeOp::Size) {
    append_value(p, line, static_cast<ValueId>(entry.a.number));
    line += fmt::format(".shape[{}]", entry.b.number);
    return;
  }
  const std::string_view sign = sign_of(entry.op);
  if (!sign.empty()) {
    if (is_nested) line += '(';
    append_size(p, line, entry.a, true);
    line += fmt::format(" {} ", sign);
    append_size(p, line, entry.b, true);
    if (is_nested) line += ')';
    return;
  }
  line += to_text(entry.op);
  line += '(';
  append_size(p, line, entry.a, false);
  if (operands_of(entry.op) == 2) {
    line += ", ";
    append_size(p, line, entry.b, false);
  }
  line += ')';
}

void append_size(GraphPrinter& p, std::string& line, const SizeOperand& operand, bool is_nested) {
  if (!operand.is_entry) {
    line += std::to_string(operand.number);
    return;
  }
  const uint32_t id = p.layout.first_equal[static_cast<size_t>(operand.number)];
  if (p.layout.is_named[id])
    line += fmt::format("s{}", p.size_numbers.empty() ? 0 : p.size_numbers[id]);
  else
    append_entry(p, line, p.graph.sizes[id], is_nested);
}

// ---- arguments ----

std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

uint32_t append_arg(GraphPrinter& p, std::string& line, uint32_t at);

// Appends the parts of an argument, separated by commas. A tuple of one part ends with a comma.
void append_parts(GraphPrinter& p, std::string& line, uint32_t at, bool is_tuple) {
  const uint32_t end = p.graph.args[at].end;
  bool is_first = true;
  uint32_t count = 0;
  for (uint32_t part = at + 1; part < end; ++count) {
    if (!is_first) line += ", ";
    is_first = false;
    part = append_arg(p, line, part);
  }
  if (is_tuple && count == 1) line += ',';
}

// Appends an argument. Returns the index of the next argument.
uint32_t append_arg(GraphPrinter& p, std::string& line, uint32_t at) {
  const GraphArg& arg = p.graph.args[at];
  switch (arg.kind) {
    case ArgKind::None:
      line += "None";
      break;
    case ArgKind::Bool:
      line += arg.integer != 0 ? "True" : "False";
      break;
    case ArgKind::Int:
      line += std::to_string(arg.integer);
      break;
    case ArgKind::Number:
      line += number_text(arg.number);
      break;
    case ArgKind::Text:
      line += quoted_text(p.graph.texts[arg.id], '\'');
      break;
    case ArgKind::Value:
      append_value(p, line, arg.id);
      break;
    case ArgKind::Size:
      append_size(p, line, {true, arg.id}, false);
      break;
    case ArgKind::Tuple:
      line += '(';
      append_parts(p, line, at, true);
      line += ')';
      break;
    case ArgKind::Slice:
      line += "slice(";
      append_parts(p, line, at, false);
      line += ')';
      break;
    case ArgKind::Ellipsis:
      line += "...";
      break;
    case ArgKind::TypeName: {
      DType dtype = 0;
      const std::string_view name = p.graph.texts[arg.id];
      line += find_dtype(name, dtype) ? std::string(name) : fmt::format("dtype({})", quoted_text(name, '\''));
      break;
    }
    case ArgKind::Float:
      line += p.graph.texts[arg.id];
      break;
    case ArgKind::Host:
      line += fmt::format("host({})", number_text(arg.number));
      break;
    case ArgKind::Other:
      line += fmt::format("other({})", quoted_text(p.graph.texts[arg.id], '\''));
      break;
  }
  return arg.end;
}

// Appends an index in Python's syntax. A slice nested in a tuple is written `slice(a, b, c)`.
void append_index(GraphPrinter& p, std::string& line, uint32_t at) {
  const auto& args = p.graph.args;
  for (uint32_t item = at + 1; item < args[at].end; item = args[item].end) {
    if (item > at + 1) line += ", ";
    if (args[item].kind != ArgKind::Slice) {
      append_arg(p, line, item);
      continue;
    }
    const uint32_t begin = item + 1, end = args[begin].end, step = args[end].end;
    const auto append_part = [&](uint32_t part) {
      if (args[part].kind != ArgKind::None) append_arg(p, line, part);
    };
    append_part(begin);
    line += ':';
    append_part(end);
    if (args[step].kind == ArgKind::None) continue;
    line += ':';
    append_arg(p, line, step);
  }
}

// True for a call of __getitem__ with a value and a tuple, which is printed as `x[1:, None]`.
bool is_indexing(const OpGraph& graph, const GraphNode& node) {
  if (graph.strings[node.name] != "__getitem__" || node.keywords_begin != node.keywords_end) return false;
  const uint32_t value = node.args_begin, index = value + 1;
  return index < node.args_end && graph.args[value].kind == ArgKind::Value &&
         graph.args[index].kind == ArgKind::Tuple && graph.args[index].end == node.args_end;
}

// ---- statements ----

bool has_graded_arg(const GraphPrinter& p, const GraphNode& node) {
  const auto is_graded = [&](const GraphArg& arg) {
    return arg.kind == ArgKind::Value && p.graph.values[arg.id].requires_grad;
  };
  const uint32_t end = node.keywords_begin == node.keywords_end
                           ? node.args_end
                           : p.graph.args[p.graph.keywords[node.keywords_end - 1].arg].end;
  return std::any_of(p.graph.args.begin() + node.args_begin, p.graph.args.begin() + end, is_graded);
}

bool is_no_grad(const GraphPrinter& p) { return p.frame != 0 && p.graph.nodes[p.layout.frames[p.frame].enter].no_grad; }

std::string call_text(GraphPrinter& p, const GraphNode& node) {
  const OpGraph& graph = p.graph;
  std::string line;
  if (is_indexing(graph, node)) {
    append_value(p, line, graph.args[node.args_begin].id);
    line += '[';
    append_index(p, line, node.args_begin + 1);
    return line += ']';
  }
  const std::string_view op = graph.strings[node.name];
  const bool begins_line = node.out_begin == node.out_end;
  line = begins_line ? operand_text(op) : path_text(op);
  line += '(';
  for (uint32_t at = node.args_begin; at < node.args_end;) {
    if (at > node.args_begin) line += ", ";
    at = append_arg(p, line, at);
  }
  for (uint32_t k = node.keywords_begin; k < node.keywords_end; ++k) {
    if (k > node.keywords_begin || node.args_begin < node.args_end) line += ", ";
    line += path_text(graph.strings[graph.keywords[k].name]);
    line += '=';
    append_arg(p, line, graph.keywords[k].arg);
  }
  return line += ')';
}

void print_op(GraphPrinter& p, const GraphNode& node) {
  const OpGraph& graph = p.graph;
  const std::string call = call_text(p, node);
  ++p.tick;
  const bool is_graded = has_graded_arg(p, node) && !is_no_grad(p);
  std::string names, types;
  for (uint32_t out = node.out_begin; out < node.out_end; ++out) {
    const std::string_view separator = out > node.out_begin ? ", " : "";
    names += separator;
    types += separator;
    bind_result(p, names, graph.outs[out], graph.strings[node.name]);
    ++p.tick;
    types += type_text(p, graph.values[graph.outs[out]], is_graded);
  }
  end_line(p, names.empty() ? call : fmt::format("{} = {} -> {}", names, call, types));
}

// Returns the name that the reader gives to a value inside a module without `as`: the keyword's, or the name outside.
std::string default_name(const GraphPrinter& p, const Crossing& crossing) {
  const bool is_keyword = crossing.depth == 1 && is_value_name(crossing.key);
  return is_keyword ? std::string(crossing.key) : name_of(p, crossing.from);
}

// Returns the preferred name of a value after a boundary.
std::string wanted_name(const GraphPrinter& p, const GraphNode& node, const Crossing& crossing) {
  const std::string by_default = default_name(p, crossing);
  const std::string_view module = last_name(p.graph.strings[node.name]);
  const bool is_of_keyword = crossing.depth == 1 && is_value_name(crossing.key);
  if (node.kind == NodeKind::Exit && !is_of_keyword && !module.empty()) return identifier_of(module);
  return is_identifier(by_default) ? by_default : identifier_of(last_name(by_default));
}

void append_crossing(GraphPrinter& p, std::string& line, const GraphNode& node, const Crossing& crossing) {
  const uint32_t home = p.layout.frame_of[crossing.to];
  append_value(p, line, crossing.from);
  const Tick read = p.tick++;
  if (!is_counting(p)) {
    const NameScope scope = scope_of(p, home);
    const std::string by_default = default_name(p, crossing);
    const bool is_unused = last_use(p.uses, crossing.to) == 0;
    const bool keeps_default = is_identifier(by_default) && is_free(*p.names, by_default, scope, read);
    if (is_unused && !keeps_default) {
      line += " as _";
    } else {
      const bool is_permanent = is_used_outside(p, crossing.to, home);
      const std::string wanted = is_unused ? by_default : wanted_name(p, node, crossing);
      name_value(*p.names, crossing.to, wanted, scope, p.tick, is_permanent);
      if (name_of(p, crossing.to) != by_default) line += " as " + name_of(p, crossing.to);
    }
    const GraphValue &from = p.graph.values[crossing.from], &to = p.graph.values[crossing.to];
    if (from.dtype != to.dtype || from.requires_grad != to.requires_grad)
      line += ": " + type_text(p, to, from.requires_grad);
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

void print_enter(GraphPrinter& p, const GraphNode& node, uint32_t index) {
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
  end_line(p, line);
  ++p.depth;
}

void print_nonlocals(GraphPrinter& p, uint32_t outer) {
  if (is_counting(p) || p.nonlocals[p.frame].empty()) return;
  std::string line = "nonlocal ";
  for (const ValueId value : p.nonlocals[p.frame]) {
    if (value != p.nonlocals[p.frame].front()) line += ", ";
    line += name_of(p, value);
    rebind_outer_name(*p.names, value, scope_of(p, outer));
  }
  end_line(p, line);
}

void print_exit(GraphPrinter& p, const GraphNode& node) {
  const uint32_t outer = p.layout.frames[p.frame].parent;
  print_nonlocals(p, outer);
  for (uint32_t at = node.crossing_begin; at < node.crossing_end;) {
    std::string line = "return ";
    if (p.graph.crossings[at].depth == 0)
      append_crossing(p, line, node, p.graph.crossings[at++]);
    else
      at = append_list(p, line, node, at);
    end_line(p, line);
  }
  if (is_counting(p))
    p.frame_ends[p.frame] = p.tick;
  else
    end_names(*p.names, p.layout.frames[p.frame].depth);
  ++p.tick;
  p.frame = outer;
  --p.depth;
}

// ---- declarations and settings ----

void print_declaration(GraphPrinter& p, uint32_t index) {
  constexpr std::string_view kKinds[] = {"input", "param", "buffer", "constant"};
  static_assert(std::size(kKinds) == static_cast<size_t>(LeafKind::Constant) + 1);
  const GraphLeaf& leaf = p.graph.leaves[index];
  const std::string_view path = p.graph.strings[leaf.path];
  std::string line = fmt::format("{} ", kKinds[static_cast<size_t>(leaf.kind)]);
  if (p.forms[index] == LeafForm::DeclaredPath) {
    line += operand_text(path);
  } else {
    const bool is_input = leaf.kind == LeafKind::Input;
    const std::string base = path.empty() ? std::string(kKinds[static_cast<size_t>(leaf.kind)]) : std::string(path);
    name_value(*p.names, leaf.value, is_identifier(base) ? base : identifier_of(last_name(base)), {}, p.tick, true);
    if (is_input) release_name(*p.names, leaf.value);
    const std::string name = name_of(p, leaf.value);
    const bool is_plain = is_input ? name == path : leaf.kind == LeafKind::Constant && path.empty();
    line += is_plain ? name : fmt::format("{} as {}", operand_text(path), name);
  }
  end_line(p, line + ": " + type_text(p, p.graph.values[leaf.value], leaf.kind == LeafKind::Param));
}

// Begins a statement. Declares the leaves that this statement uses first.
void begin_statement(GraphPrinter& p) {
  if (!is_counting(p)) {
    for (const uint32_t leaf : p.declared[p.statement]) print_declaration(p, leaf);
  }
  ++p.statement;
}

void print_sizes_and_guards(GraphPrinter& p, uint32_t position, size_t& size, size_t& guard) {
  const GraphLayout& layout = p.layout;
  for (; size < layout.size_lines.size() && layout.size_lines[size].first == position; ++size) {
    begin_statement(p);
    const uint32_t id = layout.size_lines[size].second;
    std::string line = fmt::format("size s{} = ", size + 1);
    append_entry(p, line, p.graph.sizes[id], false);
    ++p.tick;
    end_line(p, line);
  }
  for (; guard < layout.guard_positions.size() && layout.guard_positions[guard] == position; ++guard) {
    begin_statement(p);
    const GraphGuard& g = p.graph.guards[guard];
    std::string line = g.held ? "assert " : "assert not ";
    append_size(p, line, g.a, false);
    line += fmt::format(" {} ", sign_of(g.op));
    append_size(p, line, g.b, false);
    ++p.tick;
    end_line(p, line);
  }
}

void print_settings(GraphPrinter& p) {
  const OpGraph& graph = p.graph;
  const std::pair<std::string_view, std::string_view> texts[] = {
      {"mode", graph.mode}, {"attention", graph.attention}, {"experts", graph.experts}, {"dtype", graph.dtype}};
  const std::pair<std::string_view, int64_t> counts[] = {{"batch", graph.batch}, {"sequence", graph.sequence}};
  std::vector<std::string> settings;
  for (const auto& [name, text] : texts) {
    if (!text.empty())
      settings.push_back(fmt::format("{}={}", name, is_identifier(text) ? std::string(text) : quoted_text(text, '\'')));
  }
  for (const auto& [name, count] : counts) {
    if (count != 0) settings.push_back(fmt::format("{}={}", name, count));
  }
  if (!settings.empty()) end_line(p, fmt::format("trace {}", fmt::join(settings, ", ")));
  for (const auto& [op, rule] : graph.rules)
    end_line(p, fmt::format("rule {} {}", operand_text(op), quoted_text(rule, '\'')));
}

void print_output(GraphPrinter& p) {
  begin_statement(p);
  if (p.graph.outputs.empty()) return;
  std::string line = "output ";
  for (const ValueId value : p.graph.outputs) {
    if (!line.ends_with(' ')) line += ", ";
    append_value(p, line, value);
  }
  end_line(p, line);
}

void print_all(GraphPrinter& p) {
  size_t size = 0, guard = 0;
  for (uint32_t i = 0; i < p.graph.nodes.size(); ++i) {
    print_sizes_and_guards(p, i, size, guard);
    const GraphNode& node = p.graph.nodes[i];
    begin_statement(p);
    if (node.kind == NodeKind::Op)
      print_op(p, node);
    else if (node.kind == NodeKind::Enter)
      print_enter(p, node, i);
    else
      print_exit(p, node);
  }
  print_sizes_and_guards(p, static_cast<uint32_t>(p.graph.nodes.size()), size, guard);
  print_output(p);
}

// ---- the two passes ----

std::vector<uint32_t> leaves_by_value(const OpGraph& graph) {
  std::vector<uint32_t> leaf_of(graph.values.size(), kNoId);
  for (uint32_t i = 0; i < graph.leaves.size(); ++i) leaf_of[graph.leaves[i].value] = i;
  return leaf_of;
}

// Chooses the form of each leaf. A path identifies one value, so leaves with the same path get names.
std::vector<LeafForm> leaf_forms(const ModelGraph& model, const OpGraph& graph) {
  TextMap<std::string_view, uint32_t> counts;
  const auto has_path = [](const GraphLeaf& leaf) {
    return leaf.kind == LeafKind::Param || leaf.kind == LeafKind::Buffer;
  };
  for (const GraphLeaf& leaf : graph.leaves) {
    if (has_path(leaf)) ++counts[graph.strings[leaf.path]];
  }
  std::vector<LeafForm> forms;
  for (const GraphLeaf& leaf : graph.leaves) {
    const std::string_view path = graph.strings[leaf.path];
    const GraphValue& value = graph.values[leaf.value];
    const bool is_one = has_path(leaf) && counts[path] == 1;
    const bool is_known = is_one && is_as_in_model(model, leaf.kind, path, shape_of(graph, leaf.value),
                                                   graph.strings[value.dtype], value.requires_grad);
    forms.push_back(!is_one ? LeafForm::Named : is_known ? LeafForm::Path : LeafForm::DeclaredPath);
  }
  return forms;
}

// Returns, by statement, the leaves to declare above it: inputs and unused leaves above the first statement, other
// leaves above their first use.
std::vector<std::vector<uint32_t>> declared_leaves(const OpGraph& graph, std::vector<LeafForm>& forms,
                                                   const std::vector<uint32_t>& first_use, uint32_t statements) {
  std::vector<std::vector<uint32_t>> declared(statements);
  for (uint32_t i = 0; i < graph.leaves.size(); ++i) {
    const bool is_used = first_use[i] != kNoId;
    if (!is_used && forms[i] == LeafForm::Path) forms[i] = LeafForm::DeclaredPath;
    if (forms[i] == LeafForm::Path) continue;
    declared[graph.leaves[i].kind == LeafKind::Input || !is_used ? 0 : first_use[i]].push_back(i);
  }
  return declared;
}

// Returns, by frame, the values that are used after its end. A value is in each frame up to the one of its last use.
std::vector<std::vector<ValueId>> nonlocal_values(const GraphPrinter& p) {
  std::vector<std::vector<ValueId>> nonlocals(p.layout.frames.size());
  for (ValueId value = 0; value < p.graph.values.size(); ++value) {
    uint32_t frame = p.layout.frame_of[value];
    for (; frame != kNoId && is_used_outside(p, value, frame); frame = p.layout.frames[frame].parent)
      nonlocals[frame].push_back(value);
  }
  return nonlocals;
}

}  // namespace

bool print_graph(const ModelGraph& model, const Sink& sink) {
  const OpGraph& graph = model.operations;
  if (!graph.is_there) return sink("# the model has no operations\n");
  const GraphLayout layout = lay_out_graph(graph);
  const std::vector<uint32_t> leaf_of = leaves_by_value(graph);
  std::vector<LeafForm> forms = leaf_forms(model, graph);
  ValueUses uses;
  std::vector<Tick> frame_ends(layout.frames.size(), kNoTick);
  std::vector<uint32_t> first_use(graph.leaves.size(), kNoId);
  GraphPrinter counter{.model = model,
                       .graph = graph,
                       .layout = layout,
                       .sink = sink,
                       .uses = uses,
                       .frame_ends = frame_ends,
                       .first_use = first_use,
                       .leaf_of = leaf_of,
                       .forms = forms,
                       .tick = 1};
  print_all(counter);
  sort_uses(uses, graph.values.size());
  ValueNames names{.uses = uses};
  names.names.assign(graph.values.size(), nullptr);
  GraphPrinter p = counter;
  p.names = &names;
  p.tick = 1;
  p.statement = 0;
  p.nonlocals = nonlocal_values(counter);
  p.declared = declared_leaves(graph, forms, first_use, counter.statement);
  for (size_t i = 0; i < graph.leaves.size(); ++i) {
    const std::string_view path = graph.strings[graph.leaves[i].path];
    if (forms[i] != LeafForm::Named && is_identifier(path)) names.reserved.emplace(path);
  }
  p.size_numbers.assign(graph.sizes.size(), 0);
  for (size_t i = 0; i < layout.size_lines.size(); ++i)
    p.size_numbers[layout.size_lines[i].second] = static_cast<uint32_t>(i + 1);
  print_settings(p);
  print_all(p);
  return !p.has_failed && sink(p.out);
}

}  // namespace tpplan
