#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "model/graph_text_reader.h"
#include "model/graph_words.h"
#include "model/size_ops.h"
#include "sharding/dtype.h"

namespace tpplan {
namespace {

constexpr size_t kMaxArgDepth = 64;

bool read_nested_arg(TextReader& reader, size_t depth);

// ---- sizes ----

uint32_t intern_size(TextReader& reader, SizeOp op, SizeOperand a, SizeOperand b, uint32_t offset) {
  const auto next = static_cast<uint32_t>(reader.graph.sizes.size());
  const auto [found, is_new] = reader.size_ids.try_emplace({op, a.is_entry, a.number, b.is_entry, b.number}, next);
  if (is_new) reader.graph.sizes.push_back({.op = op, .a = a, .b = b, .traced = 0, .offset = offset});
  return found->second;
}

bool make_size(TextReader& reader, SizeOp op, SizeOperand a, SizeOperand b, const GraphToken& at, SizeOperand& size) {
  if (!has_text_capacity(reader, reader.graph.sizes.size())) return false;
  size = {true, intern_size(reader, op, a, b, static_cast<uint32_t>(at.offset))};
  return true;
}

bool read_integer(TextReader& reader, int64_t& number) {
  const GraphToken token = next_token(reader);
  if (!is_integer(token, number))
    return text_error(reader, token, "expected a 64-bit integer", "write it without a point or exponent");
  ++reader.at;
  return true;
}

// Returns the operation on sizes that is written as a function with this name.
std::optional<SizeOp> function_of(std::string_view name) {
  const std::optional<SizeOp> op = find_size_op(name);
  return op && *op != SizeOp::Size && sign_of(*op).empty() ? op : std::nullopt;
}

bool begins_call(const TextReader& reader) {
  return next_token(reader).kind == GraphTokenKind::Word && is_sign(token_after(reader), "(");
}

bool read_size_function(TextReader& reader, SizeOp op, SizeOperand& size, size_t depth);

// True if `x.shape[1]` comes next: `.shape` is part of the word, or follows a name in backquotes.
bool begins_shape(const TextReader& reader) {
  const GraphToken& token = next_token(reader);
  if (token.kind == GraphTokenKind::Word) return token.text.ends_with(".shape") && is_sign(token_after(reader), "[");
  return token.kind == GraphTokenKind::Name && is_sign(token_after(reader), ".");
}

bool read_shape(TextReader& reader, SizeOperand& size) {
  const GraphToken token = next_token(reader);
  std::string_view name = token.text;
  ++reader.at;
  if (token.kind == GraphTokenKind::Word) {
    name.remove_suffix(std::string_view(".shape").size());
  } else {
    ++reader.at;
    if (!is_word(next_token(reader), "shape"))
      return text_error(reader, next_token(reader), "only `.shape` may follow a name", "write `.shape[0]`");
    ++reader.at;
  }
  ValueId value = 0;
  int64_t dim = 0;
  return find_value(reader, token, name, value) && expect_sign(reader, "[", "a shape") && read_integer(reader, dim) &&
         expect_sign(reader, "]", "the dim of a shape") &&
         make_size(reader, SizeOp::Size, {false, value}, {false, dim}, token, size);
}

bool read_size_operand(TextReader& reader, SizeOperand& size, size_t depth);
bool read_size_expression(TextReader& reader, SizeOperand& size, size_t depth);

bool read_size_function(TextReader& reader, SizeOp op, SizeOperand& size, size_t depth) {
  const GraphToken token = next_token(reader);
  SizeOperand a, b;
  reader.at += 2;
  if (!read_size_expression(reader, a, depth + 1)) return false;
  if (operands_of(op) == 2 &&
      (!expect_sign(reader, ",", fmt::format("`{}`", token.text)) || !read_size_expression(reader, b, depth + 1)))
    return false;
  return expect_sign(reader, ")", fmt::format("`{}`", token.text)) && make_size(reader, op, a, b, token, size);
}

bool read_size_operand(TextReader& reader, SizeOperand& size, size_t depth) {
  const GraphToken& token = next_token(reader);
  if (depth > kMaxArgDepth)
    return text_error(reader, token, fmt::format("parentheses are nested deeper than {} levels", kMaxArgDepth),
                      "name a part of the size: `size n = ...`");
  if (token.kind == GraphTokenKind::Number) return size.is_entry = false, read_integer(reader, size.number);
  if (take_sign(reader, "("))
    return read_size_expression(reader, size, depth + 1) && expect_sign(reader, ")", "a size");
  if (begins_shape(reader)) return read_shape(reader, size);
  if (begins_call(reader)) {
    if (const std::optional<SizeOp> op = function_of(token.text)) return read_size_function(reader, *op, size, depth);
  }
  const auto known = reader.sizes.find(token.text);
  if (token.kind != GraphTokenKind::Word || known == reader.sizes.end())
    return text_error(reader, token, "expected a size", "write an integer, `x.shape[0]` or the name of a `size` line");
  size = known->second;
  ++reader.at;
  return true;
}

std::optional<SizeOp> sign_ahead(const TextReader& reader) {
  const GraphToken& token = next_token(reader);
  return token.kind == GraphTokenKind::Sign ? find_sign(token.text) : std::nullopt;
}

// Reads at most one binary operation. Operators have no precedence; parentheses are required.
bool read_size_rest(TextReader& reader, SizeOperand& size, size_t depth) {
  const std::optional<SizeOp> op = sign_ahead(reader);
  if (!op) return true;
  const GraphToken token = next_token(reader);
  SizeOperand right;
  ++reader.at;
  if (!read_size_operand(reader, right, depth) || !make_size(reader, *op, size, right, token, size)) return false;
  return !sign_ahead(reader) || text_error(reader, next_token(reader), "second operation on sizes without parentheses",
                                           "write parentheses: `(a + b) * c`");
}

bool read_size_expression(TextReader& reader, SizeOperand& size, size_t depth) {
  return read_size_operand(reader, size, depth) && read_size_rest(reader, size, depth);
}

// ---- arguments ----

bool push_arg(TextReader& reader, GraphArg arg) {
  if (!has_text_capacity(reader, reader.graph.args.size())) return false;
  arg.end = static_cast<uint32_t>(reader.graph.args.size() + 1);
  reader.graph.args.push_back(arg);
  return true;
}

bool push_text(TextReader& reader, ArgKind kind, std::string_view text, double number = 0) {
  reader.graph.texts.push_back(text);
  return push_arg(reader, {.kind = kind, .id = static_cast<uint32_t>(reader.graph.texts.size() - 1), .number = number});
}

bool push_integer(TextReader& reader, int64_t number) {
  return push_arg(reader, {.kind = ArgKind::Int, .integer = number, .number = static_cast<double>(number)});
}

bool push_size(TextReader& reader, const SizeOperand& size) {
  if (!size.is_entry) return push_integer(reader, size.number);
  return push_arg(reader, {.kind = ArgKind::Size, .id = static_cast<uint32_t>(size.number)});
}

// Reads a number that is too small for a double as 0, like the JSON reader.
bool read_double(TextReader& reader, double& number) {
  const GraphToken token = next_token(reader);
  const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
  const bool is_small = error == std::errc::result_out_of_range && (token.text.find("e-") != std::string_view::npos ||
                                                                    token.text.find("E-") != std::string_view::npos);
  if (is_small) number = 0;
  if (token.kind != GraphTokenKind::Number || (error != std::errc() && !is_small))
    return text_error(reader, token, "expected a number", "write infinity as `inf`");
  ++reader.at;
  return true;
}

bool has_point(std::string_view number) { return number.find_first_of(".eE") != std::string_view::npos; }

bool read_number_arg(TextReader& reader) {
  if (has_point(next_token(reader).text)) {
    double number = 0;
    return read_double(reader, number) && push_arg(reader, {.kind = ArgKind::Number, .number = number});
  }
  SizeOperand size;
  return read_size_expression(reader, size, 0) && push_size(reader, size);
}

bool read_text_of(TextReader& reader, std::string_view& text) {
  const GraphToken token = next_token(reader);
  if (token.kind != GraphTokenKind::Text)
    return text_error(reader, token, "expected a text", "write it between single quotes");
  text = token.text;
  ++reader.at;
  return true;
}

// Reads the three parts of a slice. @pre `slice(` was read.
bool read_slice(TextReader& reader, size_t depth) {
  const size_t index = reader.graph.args.size();
  if (!push_arg(reader, {.kind = ArgKind::Slice})) return false;
  for (size_t part = 0; part < 3; ++part) {
    if ((part > 0 && !expect_sign(reader, ",", "a slice")) || !read_nested_arg(reader, depth + 1)) return false;
  }
  reader.graph.args[index].end = static_cast<uint32_t>(reader.graph.args.size());
  return true;
}

bool read_host(TextReader& reader, size_t) {
  double number = 0;
  return read_double(reader, number) && push_arg(reader, {.kind = ArgKind::Host, .number = number});
}

bool read_named_text(TextReader& reader, ArgKind kind) {
  std::string_view text;
  return read_text_of(reader, text) && push_text(reader, kind, text);
}

// Arguments with the syntax of a call that are not sizes.
struct ArgCallRow {
  std::string_view name;
  bool (*read)(TextReader&, size_t depth);  // reads the text between the parentheses
};
constexpr ArgCallRow kCalls[] = {
    {"slice", read_slice},
    {"host", read_host},
    {"dtype", [](TextReader& r, size_t) { return read_named_text(r, ArgKind::TypeName); }},
    {"other", [](TextReader& r, size_t) { return read_named_text(r, ArgKind::Other); }},
};

bool read_call(TextReader& reader, size_t depth) {
  const GraphToken token = next_token(reader);
  const auto* const row =
      std::find_if(std::begin(kCalls), std::end(kCalls), [&](const ArgCallRow& r) { return r.name == token.text; });
  if (row == std::end(kCalls))
    return text_error(reader, token, fmt::format("an argument cannot be a call of `{}`", token.text),
                      "write the call on a separate line and the name of its result here");
  reader.at += 2;
  return row->read(reader, depth) && expect_sign(reader, ")", fmt::format("`{}`", token.text));
}

// Reads `None`, `True`, `False`, `inf`, `-inf`, `nan` or a dtype. Sets `is_read` to false for other words.
bool read_constant(TextReader& reader, bool& is_read) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string_view word = next_token(reader).text;
  constexpr std::pair<std::string_view, double> kFloats[] = {
      {"inf", kInfinity}, {"-inf", -kInfinity}, {"nan", std::numeric_limits<double>::quiet_NaN()}};
  is_read = true;
  ++reader.at;
  if (word == "None") return push_arg(reader, {.kind = ArgKind::None});
  if (word == "True" || word == "False")
    return push_arg(reader,
                    {.kind = ArgKind::Bool, .integer = word == "True", .number = static_cast<double>(word == "True")});
  for (const auto& [name, number] : kFloats) {
    if (word == name) return push_text(reader, ArgKind::Float, word, number);
  }
  DType dtype = 0;
  if (find_dtype(word, dtype)) return push_text(reader, ArgKind::TypeName, word);
  is_read = false;
  --reader.at;
  return true;
}

bool read_word_arg(TextReader& reader, size_t depth) {
  const GraphToken token = next_token(reader);
  const bool is_named_size = token.kind == GraphTokenKind::Word && reader.sizes.contains(token.text);
  const bool is_size =
      is_named_size || begins_shape(reader) || (begins_call(reader) && function_of(token.text).has_value());
  if (is_size) {
    SizeOperand size;
    return read_size_expression(reader, size, depth) && push_size(reader, size);
  }
  if (begins_call(reader)) return read_call(reader, depth);
  bool is_read = false;
  if (token.kind == GraphTokenKind::Word && (!read_constant(reader, is_read) || is_read)) return is_read;
  ValueId value = 0;
  if (!find_value(reader, token, token.text, value)) return false;
  ++reader.at;
  return push_arg(reader, {.kind = ArgKind::Value, .id = value});
}

// Reads a tuple, `(a,)` or `(a, b)`, or a size, `(a + b)`. The comma after the first element distinguishes them, so the
// tuple is undone if the comma is missing.
bool read_parentheses(TextReader& reader, size_t depth) {
  const GraphToken open = next_token(reader);
  const size_t index = reader.graph.args.size();
  ++reader.at;
  if (!push_arg(reader, {.kind = ArgKind::Tuple})) return false;
  bool has_comma = false;
  while (!is_sign(next_token(reader), ")")) {
    if (reader.graph.args.size() > index + 1 && !has_comma) break;
    if (!read_nested_arg(reader, depth + 1)) return false;
    has_comma = take_sign(reader, ",");
  }
  if (!expect_sign(reader, ")", "a tuple")) return false;
  const bool is_group = reader.graph.args.size() == index + 2 && !has_comma;
  if (!is_group) {
    reader.graph.args[index].end = static_cast<uint32_t>(reader.graph.args.size());
    return true;
  }
  const GraphArg part = reader.graph.args.back();
  if (part.kind != ArgKind::Size && part.kind != ArgKind::Int)
    return text_error(reader, open, "parentheses around one value do not make a tuple", "write a comma: `(x,)`");
  reader.graph.args.resize(index);
  SizeOperand size = part.kind == ArgKind::Size ? SizeOperand{true, part.id} : SizeOperand{false, part.integer};
  return read_size_rest(reader, size, depth) && push_size(reader, size);
}

bool read_nested_arg(TextReader& reader, size_t depth) {
  const GraphToken& token = next_token(reader);
  if (depth > kMaxArgDepth)
    return text_error(reader, token, fmt::format("arguments are nested deeper than {} levels", kMaxArgDepth),
                      "nest the tuples less deeply");
  switch (token.kind) {
    case GraphTokenKind::Word:
    case GraphTokenKind::Name:
      return read_word_arg(reader, depth);
    case GraphTokenKind::Number:
      return read_number_arg(reader);
    case GraphTokenKind::Text:
      ++reader.at;
      return push_text(reader, ArgKind::Text, token.text);
    case GraphTokenKind::Sign:
      if (is_sign(token, "(")) return read_parentheses(reader, depth);
      if (take_sign(reader, "...")) return push_arg(reader, {.kind = ArgKind::Ellipsis});
      break;
    case GraphTokenKind::End:
      break;
  }
  return text_error(reader, token, "expected an argument", "write a value, a number, a text or a tuple");
}

// True if the next item of an index contains a colon outside of all brackets.
bool is_slice_ahead(const TextReader& reader) {
  size_t depth = 0;
  for (size_t at = reader.at; at < reader.line.tokens.size(); ++at) {
    const GraphToken& token = reader.line.tokens[at];
    if (is_sign(token, "(") || is_sign(token, "[")) ++depth;
    const bool is_end = is_sign(token, ")") || is_sign(token, "]");
    if (depth == 0 && (is_end || is_sign(token, ","))) return false;
    if (depth == 0 && is_sign(token, ":")) return true;
    if (is_end) --depth;
  }
  return false;
}

// Reads `begin:end:step`. A missing part is None.
bool read_index_slice(TextReader& reader) {
  const size_t index = reader.graph.args.size();
  if (!push_arg(reader, {.kind = ArgKind::Slice})) return false;
  bool is_open = true;
  for (size_t part = 0; part < 3; ++part) {
    const GraphToken& token = next_token(reader);
    const bool is_empty = !is_open || is_sign(token, ":") || is_sign(token, ",") || is_sign(token, "]");
    if (is_empty ? !push_arg(reader, {.kind = ArgKind::None}) : !read_nested_arg(reader, 0)) return false;
    is_open = part < 2 && take_sign(reader, ":");
  }
  reader.graph.args[index].end = static_cast<uint32_t>(reader.graph.args.size());
  return true;
}

}  // namespace

bool read_text_arg(TextReader& reader) { return read_nested_arg(reader, 0); }

bool read_text_size(TextReader& reader, SizeOperand& size) { return read_size_expression(reader, size, 0); }

bool read_text_index(TextReader& reader) {
  const size_t index = reader.graph.args.size();
  if (!push_arg(reader, {.kind = ArgKind::Tuple})) return false;
  while (!is_sign(next_token(reader), "]")) {
    if (is_slice_ahead(reader) ? !read_index_slice(reader) : !read_nested_arg(reader, 0)) return false;
    if (!take_sign(reader, ",")) break;
  }
  reader.graph.args[index].end = static_cast<uint32_t>(reader.graph.args.size());
  return expect_sign(reader, "]", "an index");
}

}  // namespace tpplan
