#include "model/read_graph_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "model/graph_text_reader.h"
#include "model/graph_words.h"
#include "model/op_id.h"
#include "sharding/dtype.h"

namespace tpplan {
namespace {

uint32_t statement_offset(const TextReader& reader) { return static_cast<uint32_t>(reader.line.tokens.front().offset); }

uint32_t arg_count(const TextReader& reader) { return static_cast<uint32_t>(reader.graph.args.size()); }

// ---- names and types ----

// Reads a path, a keyword or the name of an operation.
bool read_path(TextReader& reader, std::string_view& path, std::string_view what) {
  const GraphToken token = next_token(reader);
  const bool is_number = token.kind == GraphTokenKind::Number && !token.text.starts_with('-');
  if (token.kind != GraphTokenKind::Word && token.kind != GraphTokenKind::Name && !is_number)
    return text_error(reader, token, fmt::format("expected {}", what),
                      "write a name with other characters between backquotes");
  path = token.text;
  ++reader.at;
  return true;
}

bool read_new_name(TextReader& reader, std::string_view& name) {
  const GraphToken token = next_token(reader);
  if (token.kind != GraphTokenKind::Word || !is_identifier(token.text))
    return text_error(reader, token, "expected a name for a value", "use letters, digits and underscores");
  if (is_reserved_word(token.text) && token.text != "_")
    return text_error(reader, token, fmt::format("`{}` is a reserved word", token.text), "choose another name");
  if (reader.sizes.contains(token.text))
    return text_error(reader, token, fmt::format("`{}` is the name of a size", token.text), "choose another name");
  name = token.text;
  ++reader.at;
  return true;
}

struct ValueType {
  std::string_view dtype;
  std::vector<int64_t> shape;
  bool requires_grad = false;
};

bool read_dims(TextReader& reader, std::vector<int64_t>& shape) {
  int64_t elements = 1;
  while (!is_sign(next_token(reader), "]")) {
    const GraphToken token = next_token(reader);
    int64_t size = 0;
    if (!is_integer(token, size) || size < 0)
      return text_error(reader, token, "expected a size of a shape", "write a count, such as 16");
    if (shape.size() == kMaxDims)
      return text_error(reader, token, fmt::format("shape has more than {} dims", kMaxDims), "remove dims");
    // A size of 0 counts as 1, so that it does not hide an overflow of the others.
    const int64_t factor = std::max<int64_t>(1, size);
    if (factor > (int64_t{1} << 62) / elements)
      return text_error(reader, token, "shape has more than 2^62 elements", "write smaller sizes");
    elements *= factor;
    shape.push_back(size);
    ++reader.at;
    if (!take_sign(reader, ",")) break;
  }
  return expect_sign(reader, "]", "a shape");
}

// Reads `float32[2, 8]`, and `grad` or `no_grad` if requires_grad differs from the default: `may_have_grad` and a
// floating-point or complex dtype.
bool read_type(TextReader& reader, bool may_have_grad, ValueType& type) {
  std::string_view dtype;
  if (!read_path(reader, dtype, "a dtype") || !expect_sign(reader, "[", "a dtype") || !read_dims(reader, type.shape))
    return false;
  type.dtype = dtype;
  type.requires_grad = may_have_grad && has_gradients(dtype);
  for (const std::string_view word : {"grad", "no_grad"}) {
    if (!is_word(next_token(reader), word)) continue;
    type.requires_grad = word == "grad";
    ++reader.at;
  }
  return true;
}

ValueId add_typed(TextReader& reader, const ValueType& type) {
  return add_value(reader, type.shape, type.dtype, type.requires_grad);
}

bool is_no_grad(const TextReader& reader) { return !reader.frames.empty() && reader.frames.back().no_grad; }

// ---- settings of the trace ----

bool read_count(TextReader& reader, int64_t& count) {
  const GraphToken token = next_token(reader);
  if (!is_integer(token, count) || count < 0)
    return text_error(reader, token, "expected a count", "write an integer of at least 0");
  ++reader.at;
  return true;
}

bool read_setting_text(TextReader& reader, std::string_view& text) {
  const GraphToken token = next_token(reader);
  if (token.kind != GraphTokenKind::Word && token.kind != GraphTokenKind::Text)
    return text_error(reader, token, "expected a word or a text", "write the text between single quotes");
  text = token.text;
  ++reader.at;
  return true;
}

bool read_mode(TextReader& reader) {
  const GraphToken token = next_token(reader);
  if (!read_setting_text(reader, reader.graph.mode)) return false;
  return reader.graph.mode == "eval" || reader.graph.mode == "train" ||
         text_error(reader, token, "`mode` is neither eval nor train", "write `mode=eval` or `mode=train`");
}

struct SettingRow {
  std::string_view name;
  bool (*read)(TextReader&);
};
constexpr SettingRow kSettings[] = {
    {"mode", read_mode},
    {"attention", [](TextReader& r) { return read_setting_text(r, r.graph.attention); }},
    {"experts", [](TextReader& r) { return read_setting_text(r, r.graph.experts); }},
    {"dtype", [](TextReader& r) { return read_setting_text(r, r.graph.dtype); }},
    {"batch", [](TextReader& r) { return read_count(r, r.graph.batch); }},
    {"sequence", [](TextReader& r) { return read_count(r, r.graph.sequence); }},
};

bool read_settings(TextReader& reader) {
  do {
    const GraphToken token = next_token(reader);
    const auto* const row = std::find_if(std::begin(kSettings), std::end(kSettings),
                                         [&](const SettingRow& r) { return r.name == token.text; });
    if (row == std::end(kSettings))
      return text_error(reader, token, "unknown setting of the trace",
                        "use mode, attention, experts, dtype, batch or sequence");
    ++reader.at;
    if (!expect_sign(reader, "=", fmt::format("`{}`", row->name)) || !row->read(reader)) return false;
  } while (take_sign(reader, ","));
  return true;
}

bool read_rule(TextReader& reader) {
  std::string_view op;
  if (!read_path(reader, op, "an operation")) return false;
  const GraphToken token = next_token(reader);
  if (token.kind != GraphTokenKind::Text)
    return text_error(reader, token, "expected the rule of the operation", "write the rule between single quotes");
  reader.graph.rules.emplace_back(op, token.text);
  ++reader.at;
  return true;
}

// ---- leaves, sizes and guards ----

bool add_leaf(TextReader& reader, LeafKind kind, std::string_view path, ValueId value, uint32_t offset) {
  if (!has_text_capacity(reader, reader.graph.leaves.size())) return false;
  reader.graph.leaves.push_back({.value = value, .kind = kind, .path = intern_string(reader, path), .offset = offset});
  return true;
}

// Binds a name in the outermost frame, so that it is visible in all modules.
bool bind_leaf(TextReader& reader, const GraphToken& token, std::string_view name, ValueId value) {
  std::vector<BoundName>& bound = reader.values[name];
  if (!bound.empty())
    return text_error(reader, token, fmt::format("`{}` already names another value", name), "choose another name");
  bound.push_back({0, value});
  return true;
}

bool read_leaf(TextReader& reader, LeafKind kind) {
  const GraphToken token = next_token(reader);
  std::string_view path, name;
  if (!read_path(reader, path, "a path or name")) return false;
  const GraphToken after = next_token(reader);
  const bool is_renamed = is_word(after, "as");
  if (is_renamed) {
    ++reader.at;
    if (!read_new_name(reader, name)) return false;
  } else if (kind == LeafKind::Input || kind == LeafKind::Constant) {
    reader.at -= 1;
    if (!read_new_name(reader, name)) return false;
    if (kind == LeafKind::Constant) path = {};
  }
  ValueType type;
  if (!expect_sign(reader, ":", "a name") || !read_type(reader, kind == LeafKind::Param, type)) return false;
  const ValueId value = add_typed(reader, type);
  if (!add_leaf(reader, kind, path, value, static_cast<uint32_t>(token.offset))) return false;
  if (!name.empty()) return bind_leaf(reader, token, name, value);
  return reader.leaves.try_emplace(path, value).second ||
         text_error(reader, token, fmt::format("`{}` is declared or used above this line", path),
                    "declare it once, above its first use");
}

bool read_size_line(TextReader& reader) {
  const GraphToken token = next_token(reader);
  std::string_view name;
  SizeOperand size;
  if (!read_new_name(reader, name) || !expect_sign(reader, "=", "the name of a size") || !read_text_size(reader, size))
    return false;
  const auto bound = reader.values.find(name);
  const bool is_free = name != "_" && (bound == reader.values.end() || bound->second.empty());
  return (is_free && reader.sizes.try_emplace(name, size).second) ||
         text_error(reader, token, fmt::format("`{}` is already in use", name), "choose another name");
}

bool read_assert(TextReader& reader) {
  GraphGuard guard{.op = GuardOp::Eq, .a = {}, .b = {}, .held = true, .offset = statement_offset(reader)};
  if (!has_text_capacity(reader, reader.graph.guards.size())) return false;
  if (is_word(next_token(reader), "not")) {
    guard.held = false;
    ++reader.at;
  }
  if (!read_text_size(reader, guard.a)) return false;
  const GraphToken sign = next_token(reader);
  const std::optional<GuardOp> op = find_guard_sign(sign.text);
  if (sign.kind != GraphTokenKind::Sign || !op)
    return text_error(reader, sign, "expected a comparison", "write <, <=, >, >=, == or !=");
  guard.op = *op;
  ++reader.at;
  if (!read_text_size(reader, guard.b)) return false;
  reader.graph.guards.push_back(guard);
  return true;
}

// ---- modules ----

// Reads a value that crosses a boundary: `x`, `x as y`, `x as y: float32[2]`; `as _` leaves it unnamed. Without `as`
// the name is that of the keyword, or the name before the boundary.
bool read_crossing_value(TextReader& reader, Crossing& crossing, std::string_view& name) {
  const GraphToken token = next_token(reader);
  if (token.kind != GraphTokenKind::Word && token.kind != GraphTokenKind::Name)
    return text_error(reader, token, "expected a value", "write `_` for an argument that is not a tensor");
  if (!find_value(reader, token, token.text, crossing.from)) return false;
  ++reader.at;
  name = crossing.depth == 1 && is_value_name(crossing.key) ? crossing.key : token.text;
  const bool is_renamed = is_word(next_token(reader), "as");
  if (is_renamed) {
    ++reader.at;
    if (!read_new_name(reader, name)) return false;
  } else if (!is_value_name(name) || reader.sizes.contains(name)) {
    return text_error(reader, token, fmt::format("`{}` cannot name the value after the boundary", name),
                      fmt::format("choose a name: `{} as x`", operand_text(token.text)));
  }
  GraphValue value = reader.graph.values[crossing.from];
  if (take_sign(reader, ":")) {
    ValueType type;
    if (!read_type(reader, value.requires_grad, type)) return false;
    value = {.shape = intern_shape(reader, type.shape),
             .dtype = intern_string(reader, type.dtype),
             .requires_grad = type.requires_grad};
  }
  if (!has_text_capacity(reader, reader.graph.values.size()) ||
      !has_text_capacity(reader, reader.graph.crossings.size()))
    return false;
  crossing.to = static_cast<ValueId>(reader.graph.values.size());
  reader.graph.values.push_back(value);
  return true;
}

// The arguments of a module or the values that it returns.
struct CrossingList {
  bool is_exit = false;
  int64_t position = 0;  // of the next argument
};

bool read_one_crossing(TextReader& reader, const CrossingList& list, Crossing crossing) {
  std::string_view name;
  if (!read_crossing_value(reader, crossing, name)) return false;
  if (list.is_exit) {
    reader.frames.back().results.push_back(crossing);
    reader.frames.back().returned.insert_or_assign(name, crossing.to);
  } else {
    reader.graph.crossings.push_back(crossing);
    bind_value(reader, name, crossing.to);
  }
  return true;
}

// Reads a value, or a tuple of values at depth + 1.
bool read_nested_crossing(TextReader& reader, const CrossingList& list, Crossing crossing, uint32_t depth) {
  if (depth > kMaxDims)
    return text_error(reader, next_token(reader), "tuples are nested deeper than 64 levels", "nest them less deeply");
  crossing.depth = depth;
  if (!take_sign(reader, "(")) return read_one_crossing(reader, list, crossing);
  while (!is_sign(next_token(reader), ")")) {
    if (!read_nested_crossing(reader, list, crossing, depth + 1)) return false;
    if (!take_sign(reader, ",")) break;
  }
  return expect_sign(reader, ")", "a tuple");
}

bool skip_positions(TextReader& reader, CrossingList& list, int64_t count, const GraphToken& token) {
  if (count >= kNoId - list.position) return text_error(reader, token, "too many arguments", "write a smaller count");
  list.position += count;
  return true;
}

// Reads the keyword or position before `=`, and the position of the keyword's parameter if it has one.
bool read_crossing_key(TextReader& reader, Crossing& crossing) {
  const GraphToken token = next_token(reader);
  if (token.kind == GraphTokenKind::Number) {
    int64_t at = 0;
    if (!read_count(reader, at)) return false;
    if (at >= kMaxArgPosition) return text_error(reader, token, "position is too large", "write a smaller number");
    crossing.position = static_cast<int32_t>(at);
  } else if (!read_path(reader, crossing.key, "a keyword")) {
    return false;
  }
  if (take_sign(reader, "@")) {
    int64_t parameter = 0;
    if (!read_count(reader, parameter)) return false;
    crossing.parameter = static_cast<int32_t>(std::min<int64_t>(parameter, kMaxArgPosition));
  }
  return expect_sign(reader, "=", "a keyword");
}

// Reads `_`, `_ * 3`, `x`, `(x, y)`, `mask=x`, `mask@2=x` or `2=x`.
bool read_crossing_item(TextReader& reader, CrossingList& list) {
  const GraphToken token = next_token(reader);
  if (is_word(token, "_")) {
    ++reader.at;
    int64_t count = 1;
    return (!take_sign(reader, "*") || read_count(reader, count)) && skip_positions(reader, list, count, token);
  }
  Crossing crossing;
  if (is_sign(token_after(reader), "=") || is_sign(token_after(reader), "@"))
    return read_crossing_key(reader, crossing) && read_nested_crossing(reader, list, crossing, 1);
  if (list.position >= kMaxArgPosition)
    return text_error(reader, token, "too many arguments before this one", "write a smaller count");
  crossing.position = static_cast<int32_t>(list.position);
  return skip_positions(reader, list, 1, token) && read_nested_crossing(reader, list, crossing, 1);
}

// Reads a list up to its closing parenthesis. As in Python, a tuple of one result needs a comma.
// @pre the opening parenthesis was read.
bool read_crossing_list(TextReader& reader, CrossingList& list) {
  const GraphToken first = next_token(reader);
  bool has_comma = false;
  while (!is_sign(next_token(reader), ")")) {
    if (!read_crossing_item(reader, list)) return false;
    has_comma = take_sign(reader, ",");
    if (!has_comma) break;
  }
  if (list.is_exit && list.position == 1 && !has_comma)
    return text_error(reader, first, "parentheses around one result do not make a tuple",
                      "write `return y`, or `return (y,)` for a tuple");
  return expect_sign(reader, ")", "a list of values");
}

bool read_with(TextReader& reader) {
  OpGraph& graph = reader.graph;
  const GraphToken token = next_token(reader);
  std::string_view path;
  const bool is_root = is_sign(token, "(") || is_sign(token, ":") || is_sign(token, ",");
  if (!has_text_capacity(reader, graph.nodes.size())) return false;
  if (!is_root && !read_path(reader, path, "the path of a module")) return false;
  if (reader.frames.size() == kMaxFrames)
    return text_error(reader, token, fmt::format("modules are nested deeper than {} levels", kMaxFrames),
                      "check the indentation");
  GraphNode node{.kind = NodeKind::Enter, .name = intern_string(reader, path), .offset = statement_offset(reader)};
  node.crossing_begin = static_cast<uint32_t>(graph.crossings.size());
  reader.frames.push_back({.path = node.name, .indent = reader.line.indent, .offset = node.offset});
  CrossingList list;
  if (take_sign(reader, "(") && !read_crossing_list(reader, list)) return false;
  node.positional = static_cast<uint32_t>(list.position);
  if (take_sign(reader, ",")) {
    if (!is_word(next_token(reader), "no_grad"))
      return text_error(reader, next_token(reader), "only `no_grad` may follow a module", "remove it");
    node.no_grad = true;
    ++reader.at;
  }
  reader.frames.back().no_grad = node.no_grad;
  node.crossing_end = static_cast<uint32_t>(graph.crossings.size());
  graph.nodes.push_back(node);
  return expect_sign(reader, ":", "a module");
}

bool is_in_module(TextReader& reader, std::string_view statement) {
  return !reader.frames.empty() ||
         text_error(reader, reader.line.tokens.front(), fmt::format("`{}` is outside of any module", statement),
                    "indent it below a `with` line, or write `output` for the results of the model");
}

bool read_return(TextReader& reader) {
  if (!is_in_module(reader, "return")) return false;
  OpenFrame& frame = reader.frames.back();
  if (!frame.has_returned) frame.offset = statement_offset(reader);
  frame.has_returned = true;
  CrossingList list{.is_exit = true};
  return take_sign(reader, "(") ? read_crossing_list(reader, list) : read_one_crossing(reader, list, {});
}

bool read_nonlocal(TextReader& reader) {
  if (!is_in_module(reader, "nonlocal")) return false;
  do {
    const GraphToken token = next_token(reader);
    ValueId value = 0;
    if (!find_value(reader, token, token.text, value)) return false;
    reader.frames.back().nonlocals.insert_or_assign(token.text, value);
    ++reader.at;
  } while (take_sign(reader, ","));
  return true;
}

bool read_output(TextReader& reader) {
  do {
    const GraphToken token = next_token(reader);
    ValueId value = 0;
    if (!has_text_capacity(reader, reader.graph.outputs.size()) || !find_value(reader, token, token.text, value))
      return false;
    reader.graph.outputs.push_back(value);
    ++reader.at;
  } while (take_sign(reader, ","));
  return true;
}

// Ends the innermost module: unbinds its names, and binds the names of its results in the enclosing module.
bool close_frame(TextReader& reader) {
  OpGraph& graph = reader.graph;
  OpenFrame frame = std::move(reader.frames.back());
  reader.frames.pop_back();
  for (const std::string_view name : frame.names) reader.values.at(name).pop_back();
  GraphNode node{.kind = NodeKind::Exit, .name = frame.path, .offset = frame.offset};
  node.crossing_begin = static_cast<uint32_t>(graph.crossings.size());
  graph.crossings.insert(graph.crossings.end(), frame.results.begin(), frame.results.end());
  node.crossing_end = static_cast<uint32_t>(graph.crossings.size());
  if (!has_text_capacity(reader, graph.nodes.size())) return false;
  graph.nodes.push_back(node);
  for (const auto* names : {&frame.nonlocals, &frame.returned}) {
    for (const auto& [name, value] : *names) bind_value(reader, name, value);
  }
  return true;
}

// ---- operations ----

struct OpResults {
  std::vector<std::string_view> names;
  std::vector<ValueType> types;
};

bool has_graded_arg(const TextReader& reader, uint32_t begin) {
  const std::vector<GraphArg>& args = reader.graph.args;
  return std::any_of(args.begin() + begin, args.end(), [&](const GraphArg& arg) {
    return arg.kind == ArgKind::Value && reader.graph.values[arg.id].requires_grad;
  });
}

// Reads positional arguments, then keywords, and appends both to OpGraph::args.
bool read_op_args(TextReader& reader, GraphNode& node) {
  OpGraph& graph = reader.graph;
  node.args_begin = arg_count(reader);
  node.args_end = node.args_begin;
  node.keywords_begin = static_cast<uint32_t>(graph.keywords.size());
  while (!is_sign(next_token(reader), ")")) {
    const GraphToken token = next_token(reader);
    const bool is_keyword = is_sign(token_after(reader), "=");
    if (is_keyword) {
      std::string_view name;
      if (!read_path(reader, name, "a keyword")) return false;
      ++reader.at;
      graph.keywords.push_back({.name = intern_string(reader, name), .arg = arg_count(reader)});
    } else if (graph.keywords.size() > node.keywords_begin) {
      return text_error(reader, token, "positional argument follows a keyword", "write keywords last");
    }
    if (!read_text_arg(reader)) return false;
    if (!is_keyword) node.args_end = arg_count(reader);
    if (!take_sign(reader, ",")) break;
  }
  node.keywords_end = static_cast<uint32_t>(graph.keywords.size());
  return expect_sign(reader, ")", "the arguments of an operation");
}

void set_operation(TextReader& reader, GraphNode& node, std::string_view op) {
  node.name = intern_string(reader, op);
  node.op = find_op(plain_op(op));
  node.in_place = is_in_place(op);
}

// Reads `x[1:, None]` as a call of __getitem__.
bool read_indexing(TextReader& reader, GraphNode& node) {
  const GraphToken token = next_token(reader);
  ValueId value = 0;
  if (!find_value(reader, token, token.text, value)) return false;
  reader.at += 2;
  set_operation(reader, node, "__getitem__");
  node.args_begin = arg_count(reader);
  if (!has_text_capacity(reader, reader.graph.args.size())) return false;
  reader.graph.args.push_back({.kind = ArgKind::Value, .end = node.args_begin + 1, .id = value});
  if (!read_text_index(reader)) return false;
  node.args_end = arg_count(reader);
  node.keywords_begin = node.keywords_end = static_cast<uint32_t>(reader.graph.keywords.size());
  return true;
}

bool read_results(TextReader& reader, const GraphNode& node, OpResults& results) {
  const bool is_graded = has_graded_arg(reader, node.args_begin) && !is_no_grad(reader);
  const GraphToken arrow = next_token(reader);
  if (results.names.empty() && !is_sign(arrow, "->")) return true;
  if (!expect_sign(reader, "->", "an operation with results")) return false;
  do {
    if (!read_type(reader, is_graded, results.types.emplace_back())) return false;
  } while (take_sign(reader, ","));
  return results.types.size() == results.names.size() ||
         text_error(reader, arrow,
                    fmt::format("{} results have names, but {} have types", results.names.size(), results.types.size()),
                    "write a type for each name, and the name `_` for an unused result");
}

bool read_operation(TextReader& reader) {
  OpGraph& graph = reader.graph;
  if (!has_text_capacity(reader, graph.nodes.size())) return false;
  OpResults results;
  const auto is_name_ahead = [&] {
    return next_token(reader).kind == GraphTokenKind::Word &&
           (is_sign(token_after(reader), ",") || is_sign(token_after(reader), "="));
  };
  while (is_name_ahead()) {
    if (!read_new_name(reader, results.names.emplace_back())) return false;
    if (!take_sign(reader, ",")) break;
  }
  if (!results.names.empty() && !expect_sign(reader, "=", "the names of results")) return false;
  GraphNode node{.kind = NodeKind::Op, .offset = statement_offset(reader)};
  if (is_sign(token_after(reader), "[")) {
    if (!read_indexing(reader, node)) return false;
  } else {
    std::string_view op;
    if (!read_path(reader, op, "an operation")) return false;
    if (op == "@enter" || op == "@exit")
      return text_error(reader, reader.line.tokens.front(), fmt::format("`{}` is not an operation", op),
                        "write `with` to enter a module");
    set_operation(reader, node, op);
    if (!expect_sign(reader, "(", fmt::format("`{}`", op)) || !read_op_args(reader, node)) return false;
  }
  if (!read_results(reader, node, results)) return false;
  if (!has_text_capacity(reader, graph.outs.size() + results.names.size()) ||
      !has_text_capacity(reader, graph.values.size() + results.names.size()))
    return false;
  node.out_begin = static_cast<uint32_t>(graph.outs.size());
  for (size_t i = 0; i < results.names.size(); ++i) {
    const ValueId value = add_typed(reader, results.types[i]);
    graph.outs.push_back(value);
    bind_value(reader, results.names[i], value);
  }
  node.out_end = static_cast<uint32_t>(graph.outs.size());
  graph.nodes.push_back(node);
  return true;
}

// ---- lines ----

struct StatementRow {
  std::string_view word;
  bool (*read)(TextReader&);
  bool may_follow_return = false;
};
constexpr StatementRow kStatements[] = {
    {"trace", read_settings},
    {"rule", read_rule},
    {"input", [](TextReader& r) { return read_leaf(r, LeafKind::Input); }},
    {"param", [](TextReader& r) { return read_leaf(r, LeafKind::Param); }},
    {"buffer", [](TextReader& r) { return read_leaf(r, LeafKind::Buffer); }},
    {"constant", [](TextReader& r) { return read_leaf(r, LeafKind::Constant); }},
    {"size", read_size_line},
    {"assert", read_assert},
    {"with", read_with},
    {"return", read_return, true},
    {"nonlocal", read_nonlocal},
    {"output", read_output},
};

// Returns the statement that starts with this word, nullptr for an operation. An operation with the name of a statement
// is written in backquotes.
const StatementRow* find_statement(const TextReader& reader) {
  const GraphToken& first = next_token(reader);
  if (first.kind != GraphTokenKind::Word) return nullptr;
  const auto* const row = std::find_if(std::begin(kStatements), std::end(kStatements),
                                       [&](const StatementRow& r) { return r.word == first.text; });
  return row == std::end(kStatements) ? nullptr : row;
}

// Ends the modules that do not contain this line.
bool close_frames(TextReader& reader) {
  while (!reader.frames.empty() && reader.line.indent <= reader.frames.back().indent) {
    if (!close_frame(reader)) return false;
  }
  const size_t body = reader.frames.empty() ? 0 : reader.frames.back().body_indent;
  if (!reader.frames.empty() && body == 0) {
    reader.frames.back().body_indent = reader.line.indent;
    return true;
  }
  return reader.line.indent == body ||
         text_error(reader, reader.line.tokens.front(),
                    fmt::format("line is indented by {} columns, but its module by {}", reader.line.indent, body),
                    "indent all lines of a module by the same number of columns");
}

bool read_line(TextReader& reader, const GraphLine& line) {
  read_tokens(line, reader.model.strings, reader.line);
  reader.at = 0;
  if (!reader.line.error.empty())
    return text_error(reader, reader.line.tokens.back(), reader.line.error, reader.line.help);
  if (next_token(reader).kind == GraphTokenKind::End) return true;
  if (!close_frames(reader)) return false;
  const StatementRow* row = find_statement(reader);
  const bool follows_return = !reader.frames.empty() && reader.frames.back().has_returned;
  if (follows_return && (row == nullptr || !row->may_follow_return))
    return text_error(reader, next_token(reader), "line follows the `return` of its module",
                      "move it above the `return`, or indent it less");
  if (row != nullptr) ++reader.at;
  if (row == nullptr ? !read_operation(reader) : !row->read(reader)) return false;
  return next_token(reader).kind == GraphTokenKind::End ||
         text_error(reader, next_token(reader), "unexpected text after the statement", "write one statement per line");
}

}  // namespace

const GraphToken& next_token(const TextReader& reader) { return reader.line.tokens[reader.at]; }

const GraphToken& token_after(const TextReader& reader, size_t count) {
  return reader.line.tokens[std::min(reader.at + count, reader.line.tokens.size() - 1)];
}

bool is_integer(const GraphToken& token, int64_t& number) {
  const char* const last = token.text.data() + token.text.size();
  const auto [end, error] = std::from_chars(token.text.data(), last, number);
  return token.kind == GraphTokenKind::Number && error == std::errc() && end == last;
}

bool is_sign(const GraphToken& token, std::string_view sign) {
  return token.kind == GraphTokenKind::Sign && token.text == sign;
}

bool is_word(const GraphToken& token, std::string_view word) {
  return token.kind == GraphTokenKind::Word && token.text == word;
}

bool take_sign(TextReader& reader, std::string_view sign) {
  if (!is_sign(next_token(reader), sign)) return false;
  ++reader.at;
  return true;
}

bool expect_sign(TextReader& reader, std::string_view sign, std::string_view where) {
  return take_sign(reader, sign) ||
         text_error(reader, next_token(reader), fmt::format("missing `{}` after {}", sign, where),
                    fmt::format("write `{}` here", sign));
}

// Reports only the first error of a graph: one wrong line causes errors in the lines that use its names.
bool text_error(TextReader& reader, const GraphToken& token, std::string message, std::string help) {
  if (!reader.failed)
    report_message(reader.diagnostics, Code::InvalidGraphText, {reader.model.file, token.offset, token.length},
                   std::move(message), std::move(help));
  reader.failed = true;
  return false;
}

bool has_text_capacity(TextReader& reader, size_t count) {
  if (count < kMaxGraphEntries) return true;
  if (!reader.failed)
    report_message(reader.diagnostics, Code::NestingTooDeep, {reader.model.file, next_token(reader).offset, 1},
                   fmt::format("the graph has more than {} entries of one kind", kMaxGraphEntries));
  reader.failed = true;
  return false;
}

StringId intern_string(TextReader& reader, std::string_view text) {
  const auto next = static_cast<StringId>(reader.graph.strings.size());
  const auto [found, is_new] = reader.string_ids.try_emplace(text, next);
  if (is_new) reader.graph.strings.push_back(text);
  return found->second;
}

uint32_t intern_shape(TextReader& reader, const std::vector<int64_t>& shape) {
  OpGraph& graph = reader.graph;
  const auto [found, is_new] = reader.shape_ids.try_emplace(shape, static_cast<uint32_t>(graph.shapes.size()));
  if (is_new) {
    graph.shapes.push_back(
        {.begin = static_cast<uint32_t>(graph.shape_sizes.size()), .ndim = static_cast<uint32_t>(shape.size())});
    graph.shape_sizes.insert(graph.shape_sizes.end(), shape.begin(), shape.end());
  }
  return found->second;
}

ValueId add_value(TextReader& reader, std::span<const int64_t> shape, std::string_view dtype, bool requires_grad) {
  reader.graph.values.push_back({.shape = intern_shape(reader, {shape.begin(), shape.end()}),
                                 .dtype = intern_string(reader, dtype),
                                 .requires_grad = requires_grad});
  return static_cast<ValueId>(reader.graph.values.size() - 1);
}

void bind_value(TextReader& reader, std::string_view name, ValueId value) {
  if (name == "_") return;
  std::vector<BoundName>& bound = reader.values[name];
  const size_t depth = reader.frames.size();
  if (!bound.empty() && bound.back().depth == depth) {
    bound.back().value = value;
    return;
  }
  bound.push_back({depth, value});
  if (depth > 0) reader.frames.back().names.push_back(name);
}

bool find_value(TextReader& reader, const GraphToken& token, std::string_view name, ValueId& value) {
  if (!reader.frames.empty()) {  // the second `return` of a value refers to the result of the first
    const auto& returned = reader.frames.back().returned;
    if (const auto found = returned.find(name); found != returned.end()) return value = found->second, true;
  }
  if (const auto bound = reader.values.find(name); bound != reader.values.end() && !bound->second.empty())
    return value = bound->second.back().value, true;
  if (const auto leaf = reader.leaves.find(name); leaf != reader.leaves.end()) return value = leaf->second, true;
  const ModelGraph& model = reader.model;
  const ParamId param = find_param(model, name);
  const ParamId buffer = param == kNone ? find_buffer(model, name) : kNone;
  if (param == kNone && buffer == kNone)
    return text_error(reader, token, fmt::format("unknown value `{}`", name),
                      "define it on a line above, `return` it from the module that computes it, or write the path of a "
                      "parameter or buffer");
  const Param& known = param == kNone ? model.buffers[buffer] : model.params[param];
  const std::string_view dtype = dtypes()[known.dtype].name;
  value = add_value(reader, shape_of(model, known), dtype, param != kNone && has_gradients(dtype));
  reader.leaves.emplace(name, value);
  return add_leaf(reader, param == kNone ? LeafKind::Buffer : LeafKind::Param, name, value,
                  static_cast<uint32_t>(token.offset));
}

bool read_graph_text(std::span<const GraphLine> lines, ModelGraph& model, Diagnostics& diagnostics) {
  TextReader reader{.model = model, .graph = model.operations, .diagnostics = diagnostics};
  for (const GraphLine& line : lines) {
    if (!read_line(reader, line)) return false;
  }
  while (!reader.frames.empty()) {
    if (!close_frame(reader)) return false;
  }
  return true;
}

}  // namespace tpplan
