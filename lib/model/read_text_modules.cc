#include "model/read_text_modules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "model/graph_words.h"
#include "model/read_text_types.h"

namespace tpplan {
namespace {

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
    if (!read_text_name(reader, name)) return false;
  } else if (!is_value_name(name) || reader.sizes.contains(name)) {
    return text_error(reader, token, fmt::format("`{}` cannot name the value after the boundary", name),
                      fmt::format("choose a name: `{} as x`", operand_text(token.text)));
  }
  GraphValue value = reader.graph.values[crossing.from];
  if (take_sign(reader, ":")) {
    TextType type;
    if (!read_text_type(reader, value.requires_grad, type)) return false;
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
    if (!read_text_count(reader, at)) return false;
    if (at >= kMaxArgPosition) return text_error(reader, token, "position is too large", "write a smaller number");
    crossing.position = static_cast<int32_t>(at);
  } else if (!read_text_path(reader, crossing.key, "a keyword")) {
    return false;
  }
  if (take_sign(reader, "@")) {
    int64_t parameter = 0;
    if (!read_text_count(reader, parameter)) return false;
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
    return (!take_sign(reader, "*") || read_text_count(reader, count)) && skip_positions(reader, list, count, token);
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

bool is_in_module(TextReader& reader, std::string_view statement) {
  return !reader.frames.empty() ||
         text_error(reader, reader.line.tokens.front(), fmt::format("`{}` is outside of any module", statement),
                    "indent it below a `with` line, or write `output` for the results of the model");
}

}  // namespace

bool read_text_with(TextReader& reader) {
  OpGraph& graph = reader.graph;
  const GraphToken token = next_token(reader);
  std::string_view path;
  const bool is_root = is_sign(token, "(") || is_sign(token, ":") || is_sign(token, ",");
  if (!has_text_capacity(reader, graph.nodes.size())) return false;
  if (!is_root && !read_text_path(reader, path, "the path of a module")) return false;
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

bool read_text_return(TextReader& reader) {
  if (!is_in_module(reader, "return")) return false;
  OpenFrame& frame = reader.frames.back();
  if (!frame.has_returned) frame.offset = statement_offset(reader);
  frame.has_returned = true;
  CrossingList list{.is_exit = true};
  return take_sign(reader, "(") ? read_crossing_list(reader, list) : read_one_crossing(reader, list, {});
}

bool read_text_nonlocal(TextReader& reader) {
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

bool read_text_output(TextReader& reader) {
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

bool close_text_frame(TextReader& reader) {
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

}  // namespace tpplan
