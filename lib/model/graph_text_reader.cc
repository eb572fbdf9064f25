#include "model/graph_text_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "model/graph_words.h"
#include "sharding/dtype.h"

namespace tpplan {

uint32_t statement_offset(const TextReader& reader) { return static_cast<uint32_t>(reader.line.tokens.front().offset); }

bool add_text_leaf(TextReader& reader, LeafKind kind, std::string_view path, ValueId value, uint32_t offset) {
  if (!has_text_capacity(reader, reader.graph.leaves.size())) return false;
  reader.graph.leaves.push_back({.value = value, .kind = kind, .path = intern_string(reader, path), .offset = offset});
  return true;
}

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
  return add_text_leaf(reader, param == kNone ? LeafKind::Buffer : LeafKind::Param, name, value,
                       static_cast<uint32_t>(token.offset));
}

}  // namespace tpplan
