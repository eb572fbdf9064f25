#include "model/read_text_leaves.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>

#include "model/graph_words.h"
#include "model/read_text_types.h"

namespace tpplan {
namespace {

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
    {"batch", [](TextReader& r) { return read_text_count(r, r.graph.batch); }},
    {"sequence", [](TextReader& r) { return read_text_count(r, r.graph.sequence); }},
};

// Binds a name in the outermost frame, so that it is visible in all modules.
bool bind_leaf(TextReader& reader, const GraphToken& token, std::string_view name, ValueId value) {
  std::vector<BoundName>& bound = reader.values[name];
  if (!bound.empty())
    return text_error(reader, token, fmt::format("`{}` already names another value", name), "choose another name");
  bound.push_back({0, value});
  return true;
}

}  // namespace

bool read_text_settings(TextReader& reader) {
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

bool read_text_rule(TextReader& reader) {
  std::string_view op;
  if (!read_text_path(reader, op, "an operation")) return false;
  const GraphToken token = next_token(reader);
  if (token.kind != GraphTokenKind::Text)
    return text_error(reader, token, "expected the rule of the operation", "write the rule between single quotes");
  reader.graph.rules.emplace_back(op, token.text);
  ++reader.at;
  return true;
}

bool read_text_leaf(TextReader& reader, LeafKind kind) {
  const GraphToken token = next_token(reader);
  std::string_view path, name;
  if (!read_text_path(reader, path, "a path or name")) return false;
  const GraphToken after = next_token(reader);
  const bool is_renamed = is_word(after, "as");
  if (is_renamed) {
    ++reader.at;
    if (!read_text_name(reader, name)) return false;
  } else if (kind == LeafKind::Input || kind == LeafKind::Constant) {
    reader.at -= 1;
    if (!read_text_name(reader, name)) return false;
    if (kind == LeafKind::Constant) path = {};
  }
  TextType type;
  if (!expect_sign(reader, ":", "a name") || !read_text_type(reader, kind == LeafKind::Param, type)) return false;
  const ValueId value = add_text_value(reader, type);
  if (!add_text_leaf(reader, kind, path, value, static_cast<uint32_t>(token.offset))) return false;
  if (!name.empty()) return bind_leaf(reader, token, name, value);
  return reader.leaves.try_emplace(path, value).second ||
         text_error(reader, token, fmt::format("`{}` is declared or used above this line", path),
                    "declare it once, above its first use");
}

bool read_text_size_line(TextReader& reader) {
  const GraphToken token = next_token(reader);
  std::string_view name;
  SizeOperand size;
  if (!read_text_name(reader, name) || !expect_sign(reader, "=", "the name of a size") || !read_text_size(reader, size))
    return false;
  const auto bound = reader.values.find(name);
  const bool is_free = name != "_" && (bound == reader.values.end() || bound->second.empty());
  return (is_free && reader.sizes.try_emplace(name, size).second) ||
         text_error(reader, token, fmt::format("`{}` is already in use", name), "choose another name");
}

bool read_text_assert(TextReader& reader) {
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

}  // namespace tpplan
