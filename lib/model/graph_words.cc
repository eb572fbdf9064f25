#include "model/graph_words.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "sharding/dtype.h"

namespace tpplan {
namespace {

constexpr std::pair<SizeOp, std::string_view> kSizeSigns[] = {
    {SizeOp::Add, "+"},     {SizeOp::Sub, "-"}, {SizeOp::Mul, "*"}, {SizeOp::FloorDiv, "//"},
    {SizeOp::TrueDiv, "/"}, {SizeOp::Mod, "%"}, {SizeOp::Pow, "**"}};
constexpr std::pair<GuardOp, std::string_view> kGuardSigns[] = {{GuardOp::Lt, "<"},  {GuardOp::Le, "<="},
                                                                {GuardOp::Gt, ">"},  {GuardOp::Ge, ">="},
                                                                {GuardOp::Eq, "=="}, {GuardOp::Ne, "!="}};

constexpr std::string_view kReservedWords[] = {
    "_",        "None", "True",   "False", "inf",  "nan",    "trace",    "rule",   "input", "param",   "buffer",
    "constant", "size", "assert", "not",   "with", "return", "nonlocal", "output", "as",    "no_grad", "grad"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t digits_length(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

template <typename Table, typename Key>
auto* find_row(const Table& table, Key key) {
  const auto row = std::find_if(std::begin(table), std::end(table), [&](const auto& r) { return r.first == key; });
  return row == std::end(table) ? nullptr : &*row;
}

template <typename Op, typename Table>
std::optional<Op> op_of_sign(const Table& table, std::string_view sign) {
  const auto row = std::find_if(std::begin(table), std::end(table), [&](const auto& r) { return r.second == sign; });
  return row == std::end(table) ? std::nullopt : std::optional<Op>(row->first);
}

// Returns the escape of the character at the beginning of `text`; empty if the character needs none.
std::string escape_of(std::string_view text, size_t length, char quote) {
  constexpr std::pair<char, char> kLetters[] = {{'\\', '\\'}, {'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}};
  const char c = text[0];
  if (const auto* row = find_row(kLetters, c)) return {'\\', row->second};
  if (c == quote) return {'\\', quote};
  const auto byte = static_cast<unsigned char>(c);
  if (byte < 0x20 || byte == 0x7f || text.starts_with("##[")) return fmt::format("\\x{:02x}", byte);
  if (length < 2) return {};
  const auto point = static_cast<uint32_t>(code_point(text.substr(0, length)));
  return is_invisible(point) ? fmt::format("\\u{{{:x}}}", point) : std::string();
}

}  // namespace

std::string_view sign_of(SizeOp op) {
  const auto* row = find_row(kSizeSigns, op);
  return row == nullptr ? std::string_view{} : row->second;
}

std::optional<SizeOp> find_sign(std::string_view sign) { return op_of_sign<SizeOp>(kSizeSigns, sign); }

std::string_view sign_of(GuardOp op) { return find_row(kGuardSigns, op)->second; }

std::optional<GuardOp> find_guard_sign(std::string_view sign) { return op_of_sign<GuardOp>(kGuardSigns, sign); }

bool is_reserved_word(std::string_view name) {
  DType dtype = 0;
  return find_dtype(name, dtype) ||
         std::find(std::begin(kReservedWords), std::end(kReservedWords), name) != std::end(kReservedWords);
}

bool is_identifier(std::string_view name) {
  return !name.empty() && !is_digit(name[0]) && std::all_of(name.begin(), name.end(), is_word_char);
}

bool is_value_name(std::string_view name) { return is_identifier(name) && !is_reserved_word(name); }

bool is_size_name(std::string_view name) { return name.starts_with('s') && is_digits(name.substr(1)); }

size_t word_length(std::string_view text) {
  size_t at = 0;
  while (true) {
    const size_t begin = at;
    while (at < text.size() && is_word_char(text[at])) ++at;
    if (at == begin) return begin == 0 ? 0 : begin - 1;  // a trailing separator is not part of the word
    if (at == text.size() || (text[at] != '.' && text[at] != '/')) return at;
    ++at;
  }
}

size_t number_length(std::string_view text) {
  size_t at = digits_length(text);
  if (at == 0) return 0;
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) at += 1 + digits_length(text.substr(at + 1));
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const size_t sign = at + 1 < text.size() && (text[at + 1] == '+' || text[at + 1] == '-') ? 1 : 0;
    const size_t digits = digits_length(text.substr(std::min(text.size(), at + 1 + sign)));
    if (digits > 0) at += 1 + sign + digits;
  }
  return at;
}

std::string quoted_text(std::string_view text, char quote) {
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(1, utf8_length(text.substr(at, 4)));
    const std::string escape = escape_of(text.substr(at), length, quote);
    out += escape.empty() ? text.substr(at, length) : std::string_view(escape);
    at += length;
  }
  return out += quote;
}

std::string path_text(std::string_view path) {
  return !path.empty() && word_length(path) == path.size() ? std::string(path) : quoted_text(path, '`');
}

std::string operand_text(std::string_view path) {
  const bool is_number = !path.empty() && number_length(path) == path.size();
  return is_number || is_reserved_word(path) || is_size_name(path) ? quoted_text(path, '`') : path_text(path);
}

bool has_gradients(std::string_view dtype) {
  constexpr std::string_view kKinds[] = {"float", "bfloat", "complex"};
  return std::any_of(std::begin(kKinds), std::end(kKinds),
                     [dtype](std::string_view kind) { return dtype.starts_with(kind); });
}

bool is_as_in_model(const ModelGraph& model, LeafKind kind, std::string_view path, std::span<const int64_t> shape,
                    std::string_view dtype, bool requires_grad) {
  if (kind != LeafKind::Param && kind != LeafKind::Buffer) return false;
  const ParamId param = find_param(model, path);
  const bool is_buffer = param == kNone;
  const ParamId found = is_buffer ? find_buffer(model, path) : param;
  if (found == kNone || is_buffer != (kind == LeafKind::Buffer)) return false;
  const Param& known = is_buffer ? model.buffers[found] : model.params[found];
  const std::span<const int64_t> known_shape = shape_of(model, known);
  return std::equal(shape.begin(), shape.end(), known_shape.begin(), known_shape.end()) &&
         dtypes()[known.dtype].name == dtype && requires_grad == (!is_buffer && has_gradients(dtype));
}

}  // namespace tpplan
