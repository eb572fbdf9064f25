#include "plan/read_plan_syntax.h"

#include <optional>
#include <string_view>

#include "plan/place_comments.h"
#include "plan/syntax_reader.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

// Consumes a quoted scalar. Preserves one line in double quotes, or in single quotes if its content needs them;
// anything else becomes a JSON string, which YAML reads as the same text.
std::string take_quoted(SyntaxReader& in, const YamlNode& node) {
  const std::string& text = in.file.text;
  const char quote = text[in.at];
  size_t end = in.at + 1;
  for (; end < text.size(); ++end) {
    const bool escapes = quote == '"' ? text[end] == '\\' : text.compare(end, 2, "''") == 0;
    if (escapes)
      ++end;
    else if (text[end] == quote)
      break;
  }
  if (end >= text.size()) reject_unexpected(in);
  std::string raw = text.substr(in.at, end + 1 - in.at);
  in.at = end + 1;
  const bool many_lines = raw.find('\n') != std::string::npos;
  const bool needs_single = node.text.find_first_of("\\\"'") != std::string::npos;
  if (!many_lines && (quote == '"' || needs_single)) return raw;
  return json_text(node.text);
}

// Consumes a scalar or an alias.
void take_scalar(SyntaxReader& in, const YamlNode& node, PlanNode& piece) {
  piece.kind = SyntaxKind::Scalar;
  if (peek(in) == '*') {
    piece.raw = take_word(in);
    return;
  }
  if (peek(in) == '"' || peek(in) == '\'') {
    piece.raw = take_quoted(in, node);
    return;
  }
  if (peek(in) == '|' || peek(in) == '>') {
    reject(in, "the formatter does not support block texts (`|` and `>`)", "write the text in double quotes");
  }
  if (peek(in) == '?' && is_blank(peek(in, 1))) reject_unexpected(in);
  if (in.file.text.compare(in.at, node.text.size(), node.text) != 0) {
    reject(in, "the formatter does not support texts of several lines without quotes",
           "write the text in double quotes");
  }
  piece.raw = node.text;
  in.at += node.text.size();
}

void take_value(SyntaxReader& in, YamlId id, PlanEntry& entry, bool in_flow);

void take_key(SyntaxReader& in, YamlId id, PlanEntry& entry) {
  PlanNode key;
  take_scalar(in, in.tree.nodes[id], key);
  entry.key = std::move(key.raw);
  entry.name = in.tree.nodes[id].text;
}

// Consumes the entries of a block from its first token on. `gap` precedes it.
void take_block(SyntaxReader& in, const YamlNode& node, PlanNode& piece, const Trivia& gap) {
  const bool is_map = node.kind == YamlKind::Map;
  piece.column = column_of(in);
  for (size_t i = 0; i < node.children.size(); i += is_map ? 2 : 1) {
    std::vector<std::string> leading;
    if (i == 0) {
      append_lines(leading, gap.lines);
      strip_leading_blanks(leading);
    } else {
      Trivia between = take_trivia(in);
      reject_properties(in, between);
      leading = distribute_comments(piece.entries.back(), std::move(between), piece.column);
    }
    PlanEntry& entry = piece.entries.emplace_back();
    entry.leading = std::move(leading);
    if (is_map) {
      take_key(in, node.children[i], entry);
      const Trivia colon = take_trivia(in);
      reject_properties(in, colon);
      if (peek(in) != ':' || !colon.beside.empty() || !colon.lines.empty()) reject_unexpected(in);
    } else if (peek(in) != '-' || !is_blank(peek(in, 1))) {
      reject_unexpected(in);
    }
    ++in.at;
    take_value(in, node.children[is_map ? i + 1 : i], entry, false);
  }
}

// Consumes a collection in brackets from the opening bracket on.
void take_flow(SyntaxReader& in, const YamlNode& node, PlanNode& piece) {
  const bool is_map = node.kind == YamlKind::Map;
  piece.is_flow = true;
  ++in.at;
  const auto separate = [&] {
    Trivia gap = take_trivia(in, ",");
    std::vector<std::string> lines;
    if (piece.entries.empty()) {
      if (!gap.beside.empty()) lines.push_back(gap.beside);
    } else {
      set_trailing_comment(piece.entries.back(), std::move(gap.beside), gap.space_before_comment);
    }
    append_lines(lines, gap.lines);
    if (piece.entries.empty()) strip_leading_blanks(lines);
    return std::pair(std::move(lines), std::move(gap.properties));
  };
  for (size_t i = 0; i < node.children.size(); i += is_map ? 2 : 1) {
    auto [lines, properties] = separate();
    PlanEntry& entry = piece.entries.emplace_back();
    entry.leading = std::move(lines);
    entry.value.properties = std::move(properties);
    if (is_map) {
      if (!entry.value.properties.empty()) reject_properties(in, {.properties = entry.value.properties});
      take_key(in, node.children[i], entry);
      const size_t after_key = in.at;
      const size_t comments = in.comments.size();
      const Trivia colon = take_trivia(in);
      if (peek(in) != ':') {
        in.at = after_key;  // no value
        in.comments.resize(comments);
        continue;
      }
      reject_properties(in, colon);
      if (!colon.beside.empty() || !colon.lines.empty()) reject_unexpected(in);
      ++in.at;
    }
    take_value(in, node.children[is_map ? i + 1 : i], entry, true);
  }
  auto [lines, properties] = separate();
  if (peek(in) != (is_map ? '}' : ']') || !properties.empty()) reject_unexpected(in);
  ++in.at;
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  piece.footer = std::move(lines);
}

// Returns the word for null that is next; empty if there is none. The tree does not distinguish `null` from nothing.
std::string_view null_word(const SyntaxReader& in) {
  const std::string_view rest = std::string_view(in.file.text).substr(in.at);
  const std::string_view word = rest.substr(0, std::min(rest.find_first_of(" \t\r\n,]}"), rest.size()));
  return word == "null" || word == "Null" || word == "NULL" || word == "~" ? word : "";
}

// Consumes the value of an entry after its colon, its dash or the comma before it.
void take_value(SyntaxReader& in, YamlId id, PlanEntry& entry, bool in_flow) {
  const YamlNode& node = in.tree.nodes[id];
  PlanNode& piece = entry.value;
  const size_t begin = in.at, comments = in.comments.size();
  const bool is_item = entry.key.empty();
  // The gap before an item in brackets was consumed with its comma.
  Trivia gap = in_flow && is_item ? Trivia{} : take_trivia(in);
  if (!gap.properties.empty()) piece.properties = std::move(gap.properties);
  const std::string_view null = node.kind == YamlKind::Null ? null_word(in) : "";
  if (node.kind == YamlKind::Null && null.empty() && peek(in) != '*') {
    if (!piece.properties.empty()) {
      reject(in, "the formatter does not support anchors and tags of empty values", "write `null` after it");
    }
    in.at = begin;
    in.comments.resize(comments);
    return;
  }
  const bool is_collection = (node.kind == YamlKind::Map || node.kind == YamlKind::Sequence) && peek(in) != '*';
  const bool is_bracket = peek(in) == '{' || peek(in) == '[';
  if (is_collection) piece.kind = node.kind == YamlKind::Map ? SyntaxKind::Map : SyntaxKind::Sequence;
  if (is_collection && !is_bracket) {
    if (in_flow) reject(in, "the formatter does not support a pair without braces inside a list", "write {key: value}");
    if (is_item) {
      append_comments(entry.leading, gap);
      gap.lines.clear();
    } else {
      set_trailing_comment(entry, std::move(gap.beside), gap.space_before_comment);
    }
    take_block(in, node, piece, gap);
    return;
  }
  append_comments(entry.leading, gap);
  if (is_collection) {
    take_flow(in, node, piece);
  } else if (!null.empty()) {
    piece.raw = null;
    in.at += null.size();
  } else {
    take_scalar(in, node, piece);
  }
  if (piece.kind == SyntaxKind::Scalar && piece.raw.empty()) reject_unexpected(in);  // a tag without a value
  if (piece.kind != SyntaxKind::Scalar && piece.entries.empty()) {
    // Comments inside empty brackets move above the entry.
    for (std::string& line : piece.footer) {
      if (!line.empty()) entry.leading.push_back(std::move(line));
    }
    piece.footer.clear();
  }
}

// Consumes comments and a document marker before the first key.
std::vector<std::string> take_header(SyntaxReader& in) {
  std::vector<std::string> header;
  for (;;) {
    const Trivia part = take_trivia(in);
    reject_properties(in, part);
    if (!part.beside.empty()) header.push_back(part.beside);
    append_lines(header, part.lines);
    if (peek(in) == '%')
      reject(in, "the formatter does not support YAML directives", "remove the line: a plan needs none");
    if (in.file.text.compare(in.at, 3, "---") != 0 || column_of(in) != 0 || !is_blank(peek(in, 3))) break;
    const size_t begin = in.at;
    const std::string line = take_line(in);
    const size_t more = line.find_first_not_of(" \t", 3);
    if (more != std::string::npos && line[more] != '#') {
      in.at = begin;
      reject(in, "the plan starts on the line of `---`", "write `---` on a separate line");
    }
    if (more != std::string::npos) in.comments.push_back(line.substr(more));
    header.push_back(line);
  }
  strip_leading_blanks(header);
  return header;
}

// Consumes the plan's keys, and the comments after them as the footer of the file.
PlanNode take_root(SyntaxReader& in) {
  PlanEntry root;
  const YamlNode& node = in.tree.nodes[in.tree.root];
  root.value.kind = SyntaxKind::Map;
  if (peek(in) == '{')
    take_flow(in, node, root.value);
  else
    take_block(in, node, root.value, Trivia{});
  root.value.is_flow = false;
  if (in.at < in.file.text.size() && root.value.entries.empty()) reject_unexpected(in);
  root.value.column = 0;
  // The rest belongs to the file.
  Trivia end = take_trivia(in);
  reject_properties(in, end);
  if (in.at < in.file.text.size()) reject_unexpected(in);
  std::vector<std::string> rest = distribute_comments(root, std::move(end), std::nullopt);
  for (std::string& line : rest) root.value.footer.push_back(std::move(line));
  while (!root.value.footer.empty() && root.value.footer.back().empty()) root.value.footer.pop_back();
  return std::move(root.value);
}

}  // namespace

bool read_plan_syntax(const SourceFile& file, const YamlTree& tree, PlanSyntax& pieces, Diagnostics& diagnostics) {
  SyntaxReader in{.file = file, .tree = tree, .diagnostics = diagnostics, .comments = {}};
  try {
    pieces.header = take_header(in);
    pieces.root = take_root(in);
  } catch (const RejectedSyntax&) {
    return false;
  }
  pieces.comments = std::move(in.comments);
  return true;
}

}  // namespace tpplan
