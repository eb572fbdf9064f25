#include "plan/read_pieces.h"

#include <optional>
#include <string_view>

#include "plan/piece_reader.h"
#include "plan/place_comments.h"
#include "syntax/json_writer.h"

namespace tpplan {
namespace {

// As it is written where that is one line in double quotes, or in single ones for the sake of what stands inside;
// everything else is written anew as a JSON string, which YAML reads as the same text.
std::string take_quoted(PieceReader& in, const YamlNode& node) {
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
  if (end >= text.size()) refuse_unexpected(in);
  std::string raw = text.substr(in.at, end + 1 - in.at);
  in.at = end + 1;
  const bool many_lines = raw.find('\n') != std::string::npos;
  const bool needs_single = node.text.find_first_of("\\\"'") != std::string::npos;
  if (!many_lines && (quote == '"' || needs_single)) return raw;
  return json_text(node.text);
}

// A scalar or an alias.
void take_scalar(PieceReader& in, const YamlNode& node, PlanPiece& piece) {
  piece.kind = PieceKind::Scalar;
  if (peek(in) == '*') {
    piece.raw = take_word(in);
    return;
  }
  if (peek(in) == '"' || peek(in) == '\'') {
    piece.raw = take_quoted(in, node);
    return;
  }
  if (peek(in) == '|' || peek(in) == '>') {
    refuse(in, "the formatter does not rewrite texts in blocks (`|` and `>`)", "write the text in double quotes");
  }
  if (peek(in) == '?' && is_blank(peek(in, 1))) refuse_unexpected(in);
  if (in.file.text.compare(in.at, node.text.size(), node.text) != 0) {
    refuse(in, "the formatter does not rewrite texts without quotes over several lines",
           "write the text in double quotes");
  }
  piece.raw = node.text;
  in.at += node.text.size();
}

void take_value(PieceReader& in, YamlId id, PlanEntry& entry, bool in_flow);

void take_key(PieceReader& in, YamlId id, PlanEntry& entry) {
  PlanPiece key;
  take_scalar(in, in.tree.nodes[id], key);
  entry.key = std::move(key.raw);
  entry.name = in.tree.nodes[id].text;
}

// The entries of a block, of which the first token is next. `gap` is what stands before it.
void take_block(PieceReader& in, const YamlNode& node, PlanPiece& piece, const Gap& gap) {
  const bool is_map = node.kind == YamlKind::Map;
  piece.column = column_of(in);
  for (size_t i = 0; i < node.children.size(); i += is_map ? 2 : 1) {
    std::vector<std::string> leading;
    if (i == 0) {
      append_lines(leading, gap.lines);
      strip_front_blank(leading);
    } else {
      Gap between = take_gap(in);
      no_properties(in, between);
      leading = distribute(piece.entries.back(), std::move(between), piece.column);
    }
    PlanEntry& entry = piece.entries.emplace_back();
    entry.leading = std::move(leading);
    if (is_map) {
      take_key(in, node.children[i], entry);
      const Gap colon = take_gap(in);
      no_properties(in, colon);
      if (peek(in) != ':' || !colon.beside.empty() || !colon.lines.empty()) refuse_unexpected(in);
    } else if (peek(in) != '-' || !is_blank(peek(in, 1))) {
      refuse_unexpected(in);
    }
    ++in.at;
    take_value(in, node.children[is_map ? i + 1 : i], entry, false);
  }
}

// A collection in brackets, of which the opening one is next.
void take_flow(PieceReader& in, const YamlNode& node, PlanPiece& piece) {
  const bool is_map = node.kind == YamlKind::Map;
  piece.is_flow = true;
  ++in.at;
  const auto separate = [&] {
    Gap gap = take_gap(in, ",");
    std::vector<std::string> lines;
    if (piece.entries.empty()) {
      if (!gap.beside.empty()) lines.push_back(gap.beside);
    } else {
      set_trailing(piece.entries.back(), std::move(gap.beside), gap.beside_space);
    }
    append_lines(lines, gap.lines);
    if (piece.entries.empty()) strip_front_blank(lines);
    return std::pair(std::move(lines), std::move(gap.properties));
  };
  for (size_t i = 0; i < node.children.size(); i += is_map ? 2 : 1) {
    auto [lines, properties] = separate();
    PlanEntry& entry = piece.entries.emplace_back();
    entry.leading = std::move(lines);
    entry.value.properties = std::move(properties);
    if (is_map) {
      if (!entry.value.properties.empty()) no_properties(in, {.properties = entry.value.properties});
      take_key(in, node.children[i], entry);
      const size_t behind_key = in.at;
      const size_t comments = in.comments.size();
      const Gap colon = take_gap(in);
      if (peek(in) != ':') {
        in.at = behind_key;  // no value
        in.comments.resize(comments);
        continue;
      }
      no_properties(in, colon);
      if (!colon.beside.empty() || !colon.lines.empty()) refuse_unexpected(in);
      ++in.at;
    }
    take_value(in, node.children[is_map ? i + 1 : i], entry, true);
  }
  auto [lines, properties] = separate();
  if (peek(in) != (is_map ? '}' : ']') || !properties.empty()) refuse_unexpected(in);
  ++in.at;
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  piece.footer = std::move(lines);
}

// The word for null that is next; empty where there is none. The tree does not tell `null` from nothing.
std::string_view null_word(const PieceReader& in) {
  const std::string_view rest = std::string_view(in.file.text).substr(in.at);
  const std::string_view word = rest.substr(0, std::min(rest.find_first_of(" \t\r\n,]}"), rest.size()));
  return word == "null" || word == "Null" || word == "NULL" || word == "~" ? word : "";
}

// The value of an entry, behind its colon, its dash or the comma before it.
void take_value(PieceReader& in, YamlId id, PlanEntry& entry, bool in_flow) {
  const YamlNode& node = in.tree.nodes[id];
  PlanPiece& piece = entry.value;
  const size_t begin = in.at, comments = in.comments.size();
  const bool is_item = entry.key.empty();
  // The gap before an item of a list in brackets has been taken with its comma.
  Gap gap = in_flow && is_item ? Gap{} : take_gap(in);
  if (!gap.properties.empty()) piece.properties = std::move(gap.properties);
  const std::string_view null = node.kind == YamlKind::Null ? null_word(in) : "";
  if (node.kind == YamlKind::Null && null.empty() && peek(in) != '*') {
    if (!piece.properties.empty()) {
      refuse(in, "the formatter does not keep anchors and tags of values that are not written",
             "write `null` behind it");
    }
    in.at = begin;
    in.comments.resize(comments);
    return;
  }
  const bool is_collection = (node.kind == YamlKind::Map || node.kind == YamlKind::Sequence) && peek(in) != '*';
  const bool is_bracket = peek(in) == '{' || peek(in) == '[';
  if (is_collection) piece.kind = node.kind == YamlKind::Map ? PieceKind::Map : PieceKind::Sequence;
  if (is_collection && !is_bracket) {
    if (in_flow) refuse(in, "the formatter does not rewrite a pair without braces inside a list", "write {key: value}");
    if (is_item) {
      append_comments(entry.leading, gap);
      gap.lines.clear();
    } else {
      set_trailing(entry, std::move(gap.beside), gap.beside_space);
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
  if (piece.kind == PieceKind::Scalar && piece.raw.empty()) refuse_unexpected(in);  // a tag without a value
  if (piece.kind != PieceKind::Scalar && piece.entries.empty()) {
    // Brackets around nothing hold no comment.
    for (std::string& line : piece.footer) {
      if (!line.empty()) entry.leading.push_back(std::move(line));
    }
    piece.footer.clear();
  }
}

// What stands before the first key: comments, and the mark of a document's begin on a line of its own.
std::vector<std::string> take_header(PieceReader& in) {
  std::vector<std::string> header;
  for (;;) {
    const Gap part = take_gap(in);
    no_properties(in, part);
    if (!part.beside.empty()) header.push_back(part.beside);
    append_lines(header, part.lines);
    if (peek(in) == '%')
      refuse(in, "the formatter does not keep YAML directives", "remove the line: a plan needs none");
    if (in.file.text.compare(in.at, 3, "---") != 0 || column_of(in) != 0 || !is_blank(peek(in, 3))) break;
    const size_t begin = in.at;
    const std::string line = take_line(in);
    const size_t more = line.find_first_not_of(" \t", 3);
    if (more != std::string::npos && line[more] != '#') {
      in.at = begin;
      refuse(in, "the plan begins on the line of `---`", "write `---` on a line of its own");
    }
    if (more != std::string::npos) in.comments.push_back(line.substr(more));
    header.push_back(line);
  }
  strip_front_blank(header);
  return header;
}

// The plan's keys, and behind them what is left: it belongs to the file.
PlanPiece take_root(PieceReader& in) {
  PlanEntry root;
  const YamlNode& node = in.tree.nodes[in.tree.root];
  root.value.kind = PieceKind::Map;
  if (peek(in) == '{')
    take_flow(in, node, root.value);
  else
    take_block(in, node, root.value, Gap{});
  root.value.is_flow = false;
  if (in.at < in.file.text.size() && root.value.entries.empty()) refuse_unexpected(in);
  root.value.column = 0;
  // What is left belongs to the file.
  Gap end = take_gap(in);
  no_properties(in, end);
  if (in.at < in.file.text.size()) refuse_unexpected(in);
  std::vector<std::string> rest = distribute(root, std::move(end), std::nullopt);
  for (std::string& line : rest) root.value.footer.push_back(std::move(line));
  while (!root.value.footer.empty() && root.value.footer.back().empty()) root.value.footer.pop_back();
  return std::move(root.value);
}

}  // namespace

bool read_pieces(const SourceFile& file, const YamlTree& tree, PlanPieces& pieces, Diagnostics& diagnostics) {
  PieceReader in{.file = file, .tree = tree, .diagnostics = diagnostics, .comments = {}};
  try {
    pieces.header = take_header(in);
    pieces.root = take_root(in);
  } catch (const Refused&) {
    return false;
  }
  pieces.comments = std::move(in.comments);
  return true;
}

}  // namespace tpplan
