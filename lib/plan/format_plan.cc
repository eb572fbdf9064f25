#include "plan/format_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/text.h"
#include "plan/read_plan.h"
#include "plan/yaml_tree.h"

namespace tpplan {
namespace {

// ---- what is written: the tree with its comments ----

// Ends the reading after a refusal, through any depth.
struct Refused {};

enum class PieceKind : uint8_t { Scalar, Map, Sequence };

struct Entry;

// A value. Lines are comments, or empty for a blank line.
struct Piece {
  PieceKind kind = PieceKind::Scalar;
  bool is_flow = false;           // in brackets
  size_t column = 0;              // of the entries in the source
  std::string raw;                // Scalar: as it will be written; an alias; empty: a null that is not written
  std::string properties;         // "&anchor"
  std::vector<Entry> entries;
  std::vector<std::string> footer;  // below the last entry
};

struct Entry {
  std::string key;  // as it will be written; empty in a sequence
  std::string name;
  Piece value;
  std::vector<std::string> leading;
  std::string trailing;
  size_t trailing_space = 2;
};

// ---- reading: the YAML tree says what comes, the text how it is written ----

struct GapLine {
  std::string text;
  size_t column = 0;
};

// What stands between two tokens.
struct Gap {
  std::string beside;       // comment on the line of the token before
  size_t beside_space = 2;  // columns before it
  std::vector<GapLine> lines;
  std::string properties;
};

struct Reader {
  const SourceFile& file;
  const YamlTree& tree;
  Diagnostics& diagnostics;
  size_t at = 0;
  std::vector<std::string> comments;  // all, in file order
};

char peek(const Reader& in, size_t ahead = 0) { return in.at + ahead < in.file.text.size() ? in.file.text[in.at + ahead] : '\0'; }

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0'; }

size_t column_of(const Reader& in) {
  const size_t line = in.at == 0 ? std::string::npos : in.file.text.rfind('\n', in.at - 1);
  return in.at - (line == std::string::npos ? 0 : line + 1);
}

[[noreturn]] void refuse(Reader& in, std::string message, std::string help) {
  const Span span{Source::Plan, std::min(in.at, in.file.text.size()), 1};
  report_message(in.diagnostics, Code::TP1011, span, std::move(message), std::move(help));
  throw Refused{};
}

[[noreturn]] void refuse_unexpected(Reader& in) {
  const std::string_view line = line_at(in.file, in.at);
  const std::string_view rest = line.substr(std::min(column_of(in), line.size()), 20);
  refuse(in, fmt::format("the formatter does not know how to keep what stands here: `{}`", rest),
         "write it on one line, with quotes around texts and brackets around lists; the file is left as it is");
}

std::string take_comment(Reader& in) {
  const size_t end = std::min(in.file.text.find('\n', in.at), in.file.text.size());
  std::string comment = in.file.text.substr(in.at, end - in.at);
  comment.erase(comment.find_last_not_of(" \t\r") + 1);
  in.at = end;
  in.comments.push_back(comment);
  return comment;
}

// Goes on to the next token. `separators` are skipped as well.
Gap take_gap(Reader& in, std::string_view separators = {}) {
  Gap gap;
  size_t breaks = 0, token_end = in.at;
  bool is_first_line = in.at > 0;
  const auto blank = [&] {
    if (breaks >= 2 && (gap.lines.empty() || !gap.lines.back().text.empty())) gap.lines.push_back({});
  };
  for (char c = peek(in); in.at < in.file.text.size(); c = peek(in)) {
    if (c == '\n') {
      ++breaks;
      is_first_line = false;
      ++in.at;
    } else if (is_blank(c)) {
      ++in.at;
    } else if (c == '#') {
      const size_t column = column_of(in), space = in.at - token_end;
      if (is_first_line) {
        gap.beside_space = std::max<size_t>(space, 2);
        gap.beside = take_comment(in);
      } else {
        blank();
        gap.lines.push_back({take_comment(in), column});
      }
      breaks = 0;
    } else if (c == '&' || c == '!') {
      const size_t end = std::min(in.file.text.find_first_of(" \t\r\n,[]{}", in.at), in.file.text.size());
      gap.properties += (gap.properties.empty() ? "" : " ") + in.file.text.substr(in.at, end - in.at);
      in.at = token_end = end;
      breaks = 0;
    } else if (separators.find(c) != std::string_view::npos) {
      token_end = ++in.at;
      breaks = 0;
    } else {
      break;
    }
  }
  blank();
  return gap;
}

void set_trailing(Entry& entry, std::string comment, size_t space) {
  if (comment.empty()) return;
  // Two comments beside one entry: the one beside the key goes above it.
  if (!entry.trailing.empty()) entry.leading.push_back(std::move(entry.trailing));
  entry.trailing = std::move(comment);
  entry.trailing_space = space;
}

void append_lines(std::vector<std::string>& target, const std::vector<GapLine>& lines, size_t from = 0) {
  for (size_t i = from; i < lines.size(); ++i) target.push_back(lines[i].text);
}

void append_comments(std::vector<std::string>& target, const Gap& gap) {
  if (!gap.beside.empty()) target.push_back(gap.beside);
  for (const GapLine& line : gap.lines) {
    if (!line.text.empty()) target.push_back(line.text);
  }
}

void strip_front_blank(std::vector<std::string>& lines) {
  if (!lines.empty() && lines[0].empty()) lines.erase(lines.begin());
}

bool is_open_block(const Piece& piece) { return piece.kind != PieceKind::Scalar && !piece.is_flow && !piece.entries.empty(); }

// Gives what stands between an entry and what follows it on column `own` to whom it belongs: the comment on its line to the
// innermost entry that ends there; comment lines that are indented like the entries of a block that ends here to that
// block. Returns the lines that are left for what follows.
std::vector<std::string> distribute(Entry& previous, Gap gap, std::optional<size_t> own) {
  std::vector<Piece*> blocks;
  Entry* last = &previous;
  for (; is_open_block(last->value); last = &last->value.entries.back()) blocks.push_back(&last->value);
  set_trailing(*last, std::move(gap.beside), gap.beside_space);
  size_t depth = blocks.size();
  size_t taken = 0;
  for (size_t i = 0; i < gap.lines.size(); ++i) {
    if (gap.lines[i].text.empty()) continue;
    while (depth > 0 && (blocks[depth - 1]->column > gap.lines[i].column || (own && blocks[depth - 1]->column <= *own))) --depth;
    if (depth == 0) break;
    for (; taken <= i; ++taken) blocks[depth - 1]->footer.push_back(gap.lines[taken].text);
  }
  std::vector<std::string> rest;
  append_lines(rest, gap.lines, taken);
  return rest;
}

std::string take_quoted(Reader& in, const YamlNode& node) {
  const std::string& text = in.file.text;
  const char quote = text[in.at];
  size_t end = in.at + 1;
  for (; end < text.size(); ++end) {
    if (quote == '"' && text[end] == '\\') ++end;
    else if (text[end] == quote && quote == '\'' && end + 1 < text.size() && text[end + 1] == quote) ++end;
    else if (text[end] == quote) break;
  }
  if (end >= text.size()) refuse_unexpected(in);
  std::string raw = text.substr(in.at, end + 1 - in.at);
  in.at = end + 1;
  const bool many_lines = raw.find('\n') != std::string::npos;
  const bool needs_single = node.text.find_first_of("\\\"'") != std::string::npos;
  if (!many_lines && (quote == '"' || needs_single)) return raw;
  std::string out;
  append_json_string(out, node.text);
  return out;
}

// A scalar or an alias.
void take_scalar(Reader& in, const YamlNode& node, Piece& piece) {
  piece.kind = PieceKind::Scalar;
  if (peek(in) == '*') {
    const size_t end = std::min(in.file.text.find_first_of(" \t\r\n,[]{}", in.at), in.file.text.size());
    piece.raw = in.file.text.substr(in.at, end - in.at);
    in.at = end;
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
    refuse(in, "the formatter does not rewrite texts without quotes over several lines", "write the text in double quotes");
  }
  piece.raw = node.text;
  in.at += node.text.size();
}

void take_value(Reader& in, YamlId id, Entry& entry, bool in_flow);

void take_key(Reader& in, YamlId id, Entry& entry) {
  Piece key;
  take_scalar(in, in.tree.nodes[id], key);
  entry.key = std::move(key.raw);
  entry.name = in.tree.nodes[id].text;
}

void no_properties(Reader& in, const Gap& gap) {
  if (gap.properties.empty()) return;
  refuse(in, fmt::format("the formatter does not know what `{}` belongs to", gap.properties),
         "write it behind the colon, on the line of the key");
}

// The entries of a block, of which the first token is next. `gap` is what stands before it.
void take_block(Reader& in, const YamlNode& node, Piece& piece, const Gap& gap) {
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
    Entry& entry = piece.entries.emplace_back();
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
void take_flow(Reader& in, const YamlNode& node, Piece& piece) {
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
    Entry& entry = piece.entries.emplace_back();
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
std::string_view null_word(const Reader& in) {
  const std::string_view rest = std::string_view(in.file.text).substr(in.at);
  const std::string_view word = rest.substr(0, std::min(rest.find_first_of(" \t\r\n,]}"), rest.size()));
  return word == "null" || word == "Null" || word == "NULL" || word == "~" ? word : "";
}

// The value of an entry, behind its colon, its dash or the comma before it.
void take_value(Reader& in, YamlId id, Entry& entry, bool in_flow) {
  const YamlNode& node = in.tree.nodes[id];
  Piece& piece = entry.value;
  const size_t begin = in.at, comments = in.comments.size();
  const bool is_item = entry.key.empty();
  // The gap before an item of a list in brackets has been taken with its comma.
  Gap gap = in_flow && is_item ? Gap{} : take_gap(in);
  if (!gap.properties.empty()) piece.properties = std::move(gap.properties);
  const std::string_view null = node.kind == YamlKind::Null ? null_word(in) : "";
  if (node.kind == YamlKind::Null && null.empty() && peek(in) != '*') {
    if (!piece.properties.empty()) {
      refuse(in, "the formatter does not keep anchors and tags of values that are not written", "write `null` behind it");
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

// The whole file. `header` is what stands before the first key.
Piece take_file(Reader& in, std::vector<std::string>& header) {
  Gap gap;
  for (;;) {
    Gap part = take_gap(in);
    no_properties(in, part);
    if (!part.beside.empty()) header.push_back(part.beside);
    append_lines(header, part.lines);
    if (peek(in) == '%') refuse(in, "the formatter does not keep YAML directives", "remove the line: a plan needs none");
    if (in.file.text.compare(in.at, 3, "---") != 0 || column_of(in) != 0 || !is_blank(peek(in, 3))) break;
    // The mark of a document's begin stands on a line of its own, with or without a comment.
    const size_t end = std::min(in.file.text.find('\n', in.at), in.file.text.size());
    std::string line = in.file.text.substr(in.at, end - in.at);
    line.erase(line.find_last_not_of(" \t\r") + 1);
    const size_t more = line.find_first_not_of(" \t", 3);
    if (more != std::string::npos && line[more] != '#') {
      refuse(in, "the plan begins on the line of `---`", "write `---` on a line of its own");
    }
    if (more != std::string::npos) in.comments.push_back(line.substr(more));
    header.push_back(line);
    in.at = end;
  }
  strip_front_blank(header);
  Entry root;
  const YamlNode& node = in.tree.nodes[in.tree.root];
  root.value.kind = PieceKind::Map;
  if (peek(in) == '{') take_flow(in, node, root.value);
  else take_block(in, node, root.value, gap);
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

// ---- writing ----

// Where a value stands decides how it is written.
enum class Place : uint8_t { Plan, Blocks, Rules, Rule, Other };

Place place_inside(Place place, std::string_view name) {
  switch (place) {
    case Place::Plan: return name == "tp_plan" ? Place::Rules : name == "blocks" ? Place::Blocks : Place::Other;
    case Place::Blocks: return Place::Rules;
    case Place::Rules: return Place::Rule;
    case Place::Rule:
    case Place::Other: break;
  }
  return Place::Other;
}

size_t width_of(std::string_view text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; };
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins));
}

bool has_comment(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) { return !line.empty(); });
}

// Text without quotes that brackets would take apart.
bool needs_block(const std::string& raw) { return raw[0] != '"' && raw[0] != '\'' && raw.find_first_of(",[]{}") != std::string::npos; }

// Appends the value on one line; false where it holds comments or text that only a block can hold, or is far too long.
bool append_line(std::string& out, const Piece& piece) {
  if (!piece.properties.empty()) out += piece.properties + " ";
  if (piece.kind == PieceKind::Scalar) {
    out += piece.raw.empty() ? "null" : piece.raw;
    return !needs_block(piece.raw);
  }
  out += piece.kind == PieceKind::Map ? '{' : '[';
  for (const Entry& entry : piece.entries) {
    if (&entry != piece.entries.data()) out += ", ";
    if (!entry.key.empty()) out += entry.key + ": ";
    if (!entry.trailing.empty() || has_comment(entry.leading) || needs_block(entry.key)) return false;
    if (!append_line(out, entry.value) || out.size() > 4 * kPlanWidth) return false;
  }
  out += piece.kind == PieceKind::Map ? '}' : ']';
  return !has_comment(piece.footer);
}

void write_lines(std::string& out, const std::vector<std::string>& lines, size_t indent) {
  for (const std::string& line : lines) out += line.empty() ? "\n" : fmt::format("{:{}}{}\n", "", indent, line);
}

// The value on one line behind `head`; empty when it is to be written one entry a line.
std::optional<std::string> one_line(const Piece& piece, Place place, std::string_view head) {
  std::string line;
  if (piece.kind == PieceKind::Scalar) {
    if (!piece.properties.empty()) line = piece.properties + " ";
    return line + piece.raw;
  }
  const bool empty = piece.entries.empty();
  if (!empty && (place == Place::Plan || place == Place::Blocks || place == Place::Rules)) return std::nullopt;
  if (!empty && place != Place::Rule && !piece.is_flow) return std::nullopt;
  if (!append_line(line, piece) || (!empty && width_of(head) + 1 + width_of(line) > kPlanWidth)) return std::nullopt;
  return line;
}

void write_block(std::string& out, const Piece& piece, Place place, size_t indent);

// One entry of a block, from its comments to its last line. `indent` is that of the block; `is_open` says that the line has
// been begun with the dash of an item around it.
void write_entry(std::string& out, const Entry& entry, Place place, size_t indent, bool is_open) {
  const bool is_item = entry.key.empty();
  const Place inside = place_inside(place, entry.name);
  const std::string head = fmt::format("{:{}}{}", "", indent, is_item ? "-" : entry.key + ":");
  const std::string comment = entry.trailing.empty() ? "" : fmt::format("{:{}}{}", "", entry.trailing_space, entry.trailing);
  std::string value = one_line(entry.value, inside, head).value_or("");
  const bool on_one_line = entry.value.kind == PieceKind::Scalar || !value.empty();
  if (is_item && value.empty() && on_one_line) value = "null";
  if (!is_open) write_lines(out, entry.leading, indent);
  const std::string_view shown = std::string_view(head).substr(is_open ? indent : 0);
  if (on_one_line) {
    out += fmt::format("{}{}{}{}\n", shown, value.empty() ? "" : " ", value, comment);
    return;
  }
  if (!is_item) {
    out += fmt::format("{}{}{}{}\n", shown, entry.value.properties.empty() ? "" : " ", entry.value.properties, comment);
    write_block(out, entry.value, inside, indent + 2);
    return;
  }
  // An item that is a block begins on the line of its dash; comments above its first entry have gone above the dash.
  const std::vector<Entry>& entries = entry.value.entries;
  out += shown;
  if (entry.value.properties.empty()) out += ' ';
  else out += fmt::format(" {}\n", entry.value.properties);
  for (const Entry& inner : entries) {
    const bool on_the_dash = &inner == entries.data() && entry.value.properties.empty();
    write_entry(out, inner, inside, indent + 2, on_the_dash);
  }
  write_lines(out, entry.value.footer, indent + 2);
}

void write_block(std::string& out, const Piece& piece, Place place, size_t indent) {
  for (const Entry& entry : piece.entries) write_entry(out, entry, place, indent, false);
  write_lines(out, piece.footer, indent);
}

// Brings comments of items that will be written as blocks to where they can stand: above the dash.
void lift_comments(Piece& piece, Place place, size_t indent) {
  for (Entry& entry : piece.entries) {
    const bool is_item = entry.key.empty();
    const Place inside = place_inside(place, entry.name);
    lift_comments(entry.value, inside, indent + 2);
    const std::string head = fmt::format("{:{}}{}", "", indent, is_item ? "-" : entry.key + ":");
    if (!is_item || entry.value.kind == PieceKind::Scalar || one_line(entry.value, inside, head)) continue;
    if (!entry.trailing.empty()) entry.leading.push_back(std::move(entry.trailing));
    entry.trailing.clear();
    std::vector<std::string>& above = entry.value.entries[0].leading;
    for (std::string& line : above) {
      if (!line.empty()) entry.leading.push_back(std::move(line));
    }
    above.clear();
  }
}

// ---- the same plan? ----

using Proven = std::unordered_map<YamlId, YamlId>;

bool same_value(const YamlTree& a, YamlId i, const YamlTree& b, YamlId j, Proven& proven) {
  const auto known = proven.find(i);
  if (known != proven.end() && known->second == j) return true;
  const YamlNode &x = a.nodes[i], &y = b.nodes[j];
  if (x.kind != y.kind || x.children.size() != y.children.size()) return false;
  if (x.kind == YamlKind::Scalar && (x.text != y.text || x.is_plain != y.is_plain)) return false;
  for (size_t k = 0; k < x.children.size(); ++k) {
    if (!same_value(a, x.children[k], b, y.children[k], proven)) return false;
  }
  proven[i] = j;
  return true;
}

size_t key_rank(std::string_view name) {
  const std::span<const std::string_view> known = plan_keys();
  return static_cast<size_t>(std::find(known.begin(), known.end(), name) - known.begin());
}

// The children of the root, key by key in canonical order.
std::vector<std::pair<YamlId, YamlId>> sorted_members(const YamlTree& tree) {
  const std::vector<YamlId>& children = tree.nodes[tree.root].children;
  std::vector<std::pair<YamlId, YamlId>> members;
  for (size_t i = 0; i + 1 < children.size(); i += 2) members.emplace_back(children[i], children[i + 1]);
  const auto rank = [&](const auto& member) { return key_rank(tree.nodes[member.first].text); };
  std::stable_sort(members.begin(), members.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return members;
}

bool same_tree(const YamlTree& a, const YamlTree& b) {
  const auto x = sorted_members(a), y = sorted_members(b);
  Proven proven;
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [&](const auto& p, const auto& q) {
    return same_value(a, p.first, b, q.first, proven) && same_value(a, p.second, b, q.second, proven);
  });
}

bool same_plan(const TpPlan& a, const TpPlan& b) {
  const auto same_rule = [](const PlanRule& x, const PlanRule& y) {
    return x.key == y.key && x.block == y.block && x.optional == y.optional && same_treatment(x, y);
  };
  const auto same_suppression = [](const Suppression& x, const Suppression& y) {
    return x.code == y.code && x.reason == y.reason && x.rule == y.rule;
  };
  return dump(a) == dump(b) && a.keras_match == b.keras_match &&
         std::equal(a.rules.begin(), a.rules.end(), b.rules.begin(), b.rules.end(), same_rule) &&
         std::equal(a.suppressions.begin(), a.suppressions.end(), b.suppressions.begin(), b.suppressions.end(), same_suppression);
}

std::vector<std::string> sorted(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  return texts;
}

// What the formatted text would lose of a tree, a plan (absent: it has errors) and comments; empty when it loses nothing.
std::string loss(const YamlTree& tree, const std::optional<TpPlan>& plan, const std::vector<std::string>& comments,
                 const std::string& formatted) {
  const SourceFile again{.name = "formatted", .text = formatted};
  YamlTree tree_again;
  Diagnostics faults, findings;
  if (!read_yaml(again, Source::Plan, tree_again, faults) || tree_again.root == kNoYaml) return "it could not be read again";
  if (!same_tree(tree, tree_again)) return "its values would not be the same";
  const TpPlan plan_again = read_plan(again, {}, findings);
  // A plan with errors means nothing; its values have been compared.
  if (has_errors(findings) != !plan || (plan && !same_plan(*plan, plan_again))) return "it would not be the same plan";
  Reader in{.file = again, .tree = tree_again, .diagnostics = faults, .comments = {}};
  std::vector<std::string> header;
  try {
    take_file(in, header);
  } catch (const Refused&) {
    return "its comments could not be read again";
  }
  return sorted(in.comments) == sorted(comments) ? "" : "comments would be lost";
}

// read_plan's faults that say that a file is no plan at all, which is not formatted.
bool is_no_plan(const Diagnostics& findings) {
  return std::any_of(findings.list.begin(), findings.list.end(), [](const Diagnostic& d) {
    return d.severity == Severity::Error && kind_of(d.code).failure != Failure::Content;
  });
}

std::string write_plan_text(Piece& root, std::vector<std::string> header) {
  const auto by_rank = [](const Entry& a, const Entry& b) { return key_rank(a.name) < key_rank(b.name); };
  std::stable_sort(root.entries.begin(), root.entries.end(), by_rank);
  if (!root.entries.empty() && (header.empty() || header.back().empty())) strip_front_blank(root.entries[0].leading);
  lift_comments(root, Place::Plan, 0);
  std::string out;
  write_lines(out, header, 0);
  write_block(out, root, Place::Plan, 0);
  return out;
}

}  // namespace

bool format_plan(const SourceFile& file, std::string& formatted, Diagnostics& diagnostics) {
  Diagnostics findings;
  std::optional<TpPlan> plan = read_plan(file, {}, findings);
  if (has_errors(findings)) plan.reset();
  YamlTree tree;
  Diagnostics faults;
  const bool is_yaml = read_yaml(file, Source::Plan, tree, faults);
  if (!is_yaml || is_no_plan(findings) || tree.root == kNoYaml || tree.nodes[tree.root].kind != YamlKind::Map) {
    diagnostics.list.insert(diagnostics.list.end(), findings.list.begin(), findings.list.end());
    return false;
  }
  Reader in{.file = file, .tree = tree, .diagnostics = diagnostics, .comments = {}};
  std::string text;
  try {
    std::vector<std::string> header;
    Piece root = take_file(in, header);
    text = write_plan_text(root, std::move(header));
  } catch (const Refused&) {
    return false;
  }
  const std::string lost = loss(tree, plan, in.comments, text);
  if (!lost.empty()) {
    report_message(diagnostics, Code::TP1011, {Source::Plan, 0, 0}, fmt::format("the plan is left as it is: formatted, {}", lost),
                   "look for an alias that comes before its anchor once the keys are in order, or for a stray carriage return");
    return false;
  }
  formatted = std::move(text);
  return true;
}

}  // namespace tpplan
