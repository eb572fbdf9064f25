#include "model/read_graph_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>

#include "model/graph_text_reader.h"
#include "model/read_text_leaves.h"
#include "model/read_text_modules.h"
#include "model/read_text_operation.h"

namespace tpplan {
namespace {

struct StatementRow {
  std::string_view word;
  bool (*read)(TextReader&);
  bool may_follow_return = false;
};
constexpr StatementRow kStatements[] = {
    {"trace", read_text_settings},
    {"rule", read_text_rule},
    {"input", [](TextReader& r) { return read_text_leaf(r, LeafKind::Input); }},
    {"param", [](TextReader& r) { return read_text_leaf(r, LeafKind::Param); }},
    {"buffer", [](TextReader& r) { return read_text_leaf(r, LeafKind::Buffer); }},
    {"constant", [](TextReader& r) { return read_text_leaf(r, LeafKind::Constant); }},
    {"size", read_text_size_line},
    {"assert", read_text_assert},
    {"with", read_text_with},
    {"return", read_text_return, true},
    {"nonlocal", read_text_nonlocal},
    {"output", read_text_output},
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
    if (!close_text_frame(reader)) return false;
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
  if (row == nullptr ? !read_text_operation(reader) : !row->read(reader)) return false;
  return next_token(reader).kind == GraphTokenKind::End ||
         text_error(reader, next_token(reader), "unexpected text after the statement", "write one statement per line");
}

}  // namespace

bool read_graph_text(std::span<const GraphLine> lines, ModelGraph& model, Diagnostics& diagnostics) {
  TextReader reader{.model = model, .graph = model.operations, .diagnostics = diagnostics};
  for (const GraphLine& line : lines) {
    if (!read_line(reader, line)) return false;
  }
  while (!reader.frames.empty()) {
    if (!close_text_frame(reader)) return false;
  }
  return true;
}

}  // namespace tpplan
