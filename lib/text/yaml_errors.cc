#include "text/yaml_errors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "text/yaml_line_scan.h"

namespace tpplan {
namespace {

using Kind = YamlWordKind;
using MaybeError = std::optional<YamlError>;

constexpr size_t kShownLine = 50;  // most bytes of a line in a proposed fix

// True if the line ends with the colon of a key, so that the value is on the lines below.
bool opens_block(const YamlLine& line) { return !line.words.empty() && line.words.back().kind == Kind::Colon; }

std::string spaces(size_t count) { return count == 0 ? "no space" : counted(count, "space"); }

// ---- brackets ----

std::string_view bracket_name(char bracket) { return bracket == '[' || bracket == ']' ? "bracket" : "brace"; }
char closing(char open) { return open == '[' ? ']' : '}'; }

YamlError unclosed(const LineScan& s, size_t open, std::string_view where) {
  const char bracket = s.text[open];
  return {open,
          1,
          fmt::format("the {} `{}` is not closed", bracket_name(bracket), bracket),
          fmt::format("close it with `{}`{}", closing(bracket), where),
          {}};
}

// Returns the error of an unmatched bracket. `open` has the brackets open before the line, and is updated to those open
// after it.
MaybeError unmatched_bracket(const LineScan& s, std::vector<size_t>& open) {
  for (const YamlWord& word : s.line.words) {
    const char c = s.text[word.begin];
    if (word.kind == Kind::Open) open.push_back(word.begin);
    if (word.kind != Kind::Close) continue;
    if (open.empty()) {
      return YamlError{word.begin,
                       1,
                       fmt::format("the {} `{}` closes nothing", bracket_name(c), c),
                       "remove it",
                       {{word.begin, 1, ""}}};
    }
    if (closing(s.text[open.back()]) != c) return unclosed(s, open.back(), fmt::format(" before `{}`", c));
    open.pop_back();
  }
  return {};
}

// Returns an error if a bracket is open and the line looks like an entry of the surrounding mapping.
MaybeError bracket_left_open(const LineScan& s) {
  if (s.open.empty() || s.line.words.empty()) return {};
  const bool is_key =
      word_has_kind(s, 1, Kind::Colon) && (word_has_kind(s, 0, Kind::Plain) || word_has_kind(s, 0, Kind::Quoted));
  const size_t at = s.open.front();
  const size_t line_break = s.text.rfind('\n', at);
  const size_t begin = line_break == std::string_view::npos ? 0 : line_break + 1;
  const size_t indent = s.text.find_first_not_of(' ', begin) - begin;
  if (!is_key || s.line.indent > indent) return {};
  return unclosed(s, s.open.back(), " at the end of its line");
}

// Returns an error if two entries inside brackets have no comma between them.
MaybeError missing_comma(const LineScan& s) {
  std::vector<bool> has_colon(s.open.size());  // by open bracket: its current entry has a colon
  const auto& words = s.line.words;
  const auto between = [&](size_t at, std::string_view first, std::string_view second) {
    if (first.size() > 1 && (first.ends_with(';') || first.ends_with('|')))
      return YamlError{at - 1,
                       1,
                       fmt::format("expected a comma, found `{}`", first.back()),
                       fmt::format("write `{}, {}`", short_word(first.substr(0, first.size() - 1)), short_word(second)),
                       {{at - 1, 1, ","}}};
    return YamlError{at,
                     1,
                     fmt::format("no comma between `{}` and `{}`", short_word(first), short_word(second)),
                     fmt::format("write `{}, {}`", short_word(first), short_word(second)),
                     {{at, 0, ","}}};
  };
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].kind == Kind::Open) {
      has_colon.push_back(false);
      continue;
    }
    if (has_colon.empty()) continue;
    const bool ends_value = i > 0 && (words[i - 1].kind == Kind::Quoted || words[i - 1].kind == Kind::Close);
    const bool is_value =
        words[i].kind == Kind::Quoted || words[i].kind == Kind::Plain || words[i].kind == Kind::OpenQuote;
    if (ends_value && is_value) return between(words[i - 1].end, word_at(s, i - 1), word_at(s, i));
    if (words[i].kind == Kind::Close) has_colon.pop_back();
    if (words[i].kind == Kind::Comma) has_colon.back() = false;
    if (words[i].kind != Kind::Colon) continue;
    if (!has_colon.back()) {
      has_colon.back() = true;
      continue;
    }
    const std::string_view said = word_at(s, i - 1);
    const size_t space = said.find_last_of(' ');
    if (space == std::string_view::npos) continue;
    const std::string_view first = said.substr(0, said.find_last_not_of(' ', space) + 1);
    return between(words[i - 1].begin + first.size(), first, said.substr(space + 1));
  }
  return {};
}

// ---- keys and colons ----

YamlError colon_instead(size_t begin, size_t end, std::string_view found, std::string_view key,
                        std::string_view value) {
  const std::string line = fmt::format("{}: {}", key, value);
  return {begin,
          std::max<size_t>(1, end - begin),
          found.empty() ? fmt::format("no colon after `{}`", short_word(key))
                        : fmt::format("expected a colon, found `{}`", found),
          line.size() <= kShownLine ? fmt::format("write `{}`", line) : "put `: ` between key and value",
          {{begin, end - begin, ": "}}};
}

// Returns the arrow or sign at the beginning of a text that other notations use for a colon.
std::string_view sign_at(std::string_view text) {
  for (const std::string_view sign : {"->", "=>", ":=", "="}) {
    if (text.starts_with(sign)) return sign;
  }
  return {};
}

// Returns an error if a quoted key has no valid colon after it.
MaybeError quoted_key(const LineScan& s) {
  if (!s.open.empty() || !word_has_kind(s, 0, Kind::Quoted)) return {};
  const YamlWord& key = s.line.words[0];
  if (word_has_kind(s, 1, Kind::GluedColon)) {
    const size_t colon = s.line.words[1].begin;
    if (s.text[colon + 1] == ':')
      return YamlError{colon, 2, "two colons follow the key", "keep one `:`", {{colon, 1, ""}}};
    return YamlError{colon, 1, "no space after the colon", "write `: `, with a space", {{colon + 1, 0, " "}}};
  }
  if (word_has_kind(s, 1, Kind::Plain)) {
    const YamlWord& value = s.line.words[1];
    const std::string_view said = word_at(s, 1), sign = sign_at(said);
    if (said.starts_with(','))
      return YamlError{value.begin, 1, "a key is one path, but another follows", "write one rule for each", {}};
    if (value.begin == key.end && sign.empty())
      return YamlError{value.begin,
                       said.size(),
                       "the quote ends here, but the key continues",
                       s.text[key.begin] == '\'' ? "write a quote inside the text twice, or use double quotes"
                                                 : "write a quote inside the text as `\\\"`",
                       {}};
    const size_t from = std::min(said.find_first_not_of(' ', sign.size()), said.size());
    return colon_instead(key.end, value.begin + from, sign, text_of(s.text, key), said.substr(from));
  }
  if (word_has_kind(s, 1, Kind::Open) || word_has_kind(s, 1, Kind::Quoted))
    return YamlError{key.end,
                     1,
                     "no colon after the key",
                     "put `: ` between key and value",
                     {{key.end, s.line.words[1].begin - key.end, ": "}}};
  if (s.line.words.size() > 1 || (s.before != nullptr && opens_block(*s.before))) return {};
  return YamlError{key.begin,
                   key.end - key.begin,
                   fmt::format("no colon after `{}`", short_word(text_of(s.text, key))),
                   "write `: ` and the value after the key",
                   {}};
}

// Returns an error if the colon of a key is too far away. YAML needs a `?` before such a key.
MaybeError long_key(const LineScan& s) {
  constexpr size_t kMostBytes = 1024;
  const std::vector<YamlWord>& words = s.line.words;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const YamlWord &key = words[i], &colon = words[i + 1];
    const bool is_key = key.kind == Kind::Quoted || key.kind == Kind::Plain;
    const bool has_colon = colon.kind == Kind::Colon || colon.kind == Kind::GluedColon;
    if (!is_key || !has_colon || colon.begin - key.begin <= kMostBytes) continue;
    const bool is_in_block = i == 0 && s.open.empty();
    YamlError error{
        key.begin,
        key.end - key.begin,
        fmt::format("the key has {} bytes, but YAML expects its colon within {}", key.end - key.begin, kMostBytes),
        is_in_block ? "write `? ` before it, and `: ` with the value on the next line" : "write `? ` before it",
        {{key.begin, 0, "? "}}};
    if (is_in_block) error.edits.push_back({colon.begin, 0, "\n" + std::string(s.line.indent, ' ')});
    return error;
  }
  return {};
}

// Returns an error if a line has only plain text: a key whose colon is missing or not recognized.
MaybeError plain_key(const LineScan& s) {
  if (!s.open.empty() || !word_has_kind(s, 0, Kind::Plain) || word_has_kind(s, 1, Kind::Colon)) return {};
  const YamlWord& word = s.line.words[0];
  const std::string_view said = word_at(s, 0);
  if (s.before != nullptr && opens_block(*s.before)) {
    if (s.line.indent > s.before->indent) return {};
    return YamlError{word.begin,
                     said.size(),
                     fmt::format("`{}` is not indented, but the line above expects a value", short_word(said)),
                     "write the value on the line of its key, or indent it",
                     {}};
  }
  const size_t equals = said.find('=');
  if (equals != std::string_view::npos && equals > 0) {
    const size_t key_end = said.find_last_not_of(' ', equals - 1) + 1;
    const size_t value = std::min(said.find_first_not_of("=> ", equals), said.size());
    return colon_instead(word.begin + key_end, word.begin + value,
                         said.substr(equals, said.substr(equals).starts_with("=>") ? 2 : 1), said.substr(0, key_end),
                         said.substr(value));
  }
  if (MaybeError error = find_key_error(said, false, word.begin)) return error;
  const size_t space = said.find(' ');
  if (space == std::string_view::npos)
    return YamlError{word.begin,
                     said.size(),
                     fmt::format("no colon after `{}`", short_word(said)),
                     fmt::format("write `{}:`", short_word(said)),
                     {{word.end, 0, ":"}}};
  const size_t value = said.find_first_not_of(' ', space);
  const std::string_view sign = sign_at(said.substr(value));
  const size_t from = std::min(said.find_first_not_of(' ', value + sign.size()), said.size());
  return colon_instead(word.begin + space, word.begin + from, sign, said.substr(0, space), said.substr(from));
}

// Returns an error if a line has more than a key and its value.
MaybeError more_on_line(const LineScan& s) {
  if (!s.open.empty()) return {};
  size_t depth = 0, colons = 0;
  for (size_t i = 0; i < s.line.words.size(); ++i) {
    const YamlWord& word = s.line.words[i];
    depth += word.kind == Kind::Open;
    depth -= word.kind == Kind::Close && depth > 0;
    if (depth > 0) continue;
    if (word.kind == Kind::Colon && ++colons == 2) {
      const std::string_view inner =
          s.text.substr(s.line.words[2].begin, s.line.words.back().end - s.line.words[2].begin);
      return YamlError{word.begin,
                       1,
                       "a second `:` on one line",
                       i == 3 && inner.size() <= kShownLine && word_at(s, 2).find(' ') == std::string_view::npos
                           ? fmt::format("write `{{{}}}` for keys and their values, or quotes around a text", inner)
                           : "write one key a line; quote a text that has `: ` in it",
                       {}};
    }
    const bool ends_value =
        i > 2 && colons == 1 && (s.line.words[i - 1].kind == Kind::Quoted || s.line.words[i - 1].kind == Kind::Close);
    if (ends_value && (word.kind == Kind::Plain || word.kind == Kind::Quoted))
      return YamlError{word.begin,
                       word.end - word.begin,
                       fmt::format("`{}` follows the end of the value", short_word(text_of(s.text, word))),
                       "write one key and one value a line",
                       {}};
  }
  return {};
}

// ---- indentation ----

MaybeError item_among_keys(const LineScan& s) {
  if (!s.open.empty() || !word_has_kind(s, 0, Kind::Dash) || s.before == nullptr) return {};
  if (opens_block(*s.before) || s.before->words[0].kind == Kind::Dash) return {};
  const size_t at = s.line.words[0].begin;
  return YamlError{at,
                   1,
                   "a list item (`- `) is between keys",
                   "write it without `- `",
                   {{at, s.line.words.size() > 1 ? s.line.words[1].begin - at : 1, ""}}};
}

// Returns an error if a key of a list item is not aligned with the item's first key, which follows the dash.
MaybeError key_of_item(const LineScan& s) {
  if (!s.open.empty() || s.before == nullptr || s.before->words.size() < 3 || opens_block(*s.before)) return {};
  if (s.before->words[0].kind != Kind::Dash || s.before->words[2].kind != Kind::Colon) return {};
  const size_t wanted = s.before->words[1].begin - s.before->begin;
  const bool is_below = s.line.indent > s.before->indent && s.line.indent != wanted;
  const bool is_same_indent = s.line.indent == s.before->indent && s.before_that != nullptr &&
                              opens_block(*s.before_that) && s.before_that->indent < s.before->indent;
  if (!word_has_kind(s, 1, Kind::Colon) || (!is_below && !is_same_indent)) return {};
  return YamlError{
      s.line.words[0].begin,
      s.line.words[0].end - s.line.words[0].begin,
      fmt::format("indented by {}, but the keys of its item by {}", spaces(s.line.indent), spaces(wanted)),
      fmt::format("indent it by {}, below `{}`", spaces(wanted), short_word(text_of(s.text, s.before->words[1]))),
      {{s.line.begin, s.line.indent, std::string(wanted, ' ')}}};
}

MaybeError indentation(const LineScan& s) {
  if (!s.open.empty() || s.line.words.empty() || s.before == nullptr || s.before->words[0].kind == Kind::Dash)
    return {};
  const size_t indent = s.line.indent;
  if (std::find(s.indents.begin(), s.indents.end(), indent) != s.indents.end()) return {};
  const auto error = [&](const YamlLine& line, size_t wanted) {
    return YamlError{line.words[0].begin,
                     line.words[0].end - line.words[0].begin,
                     fmt::format("indented by {}, but the lines around it by {}", spaces(line.indent), spaces(wanted)),
                     fmt::format("indent it by {}, like its neighbours", spaces(wanted)),
                     {{line.begin, line.indent, std::string(wanted, ' ')}}};
  };
  if (indent > s.before->indent) {
    if (opens_block(*s.before)) return {};
    // If this line has the indent of the line before the preceding one, the preceding line is wrong.
    const bool goes_on = s.before_that != nullptr && s.before_that->indent == indent;
    return goes_on ? error(*s.before, indent) : error(s.line, s.before->indent);
  }
  return error(s.line, s.before->indent);
}

// The first error counts: checks of the line on its own come before checks against other lines.
constexpr MaybeError (*kLineChecks[])(const LineScan&) = {
    find_word_error, bracket_left_open, find_quote_error, long_key,    missing_comma, item_among_keys,
    quoted_key,      plain_key,         more_on_line,     key_of_item, indentation};

}  // namespace

namespace {

// Returns the error of a too long key after the position where the parser stopped, which is the enclosing bracket.
MaybeError long_key_after(std::string_view text, size_t begin, size_t number, const TextSet<std::string_view>& anchors,
                          const std::vector<size_t>& open) {
  const std::vector<size_t> indents;
  for (; begin < text.size(); ++number) {
    const YamlLine line = read_yaml_line(text, begin, number, open.size());
    begin = std::min(text.find('\n', begin), text.size()) + 1;
    if (MaybeError error = long_key({text, line, nullptr, nullptr, open, indents, anchors})) return error;
  }
  return {};
}

TextSet<std::string_view> anchors_of(std::string_view text) {
  TextSet<std::string_view> anchors;
  for (size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
    const std::string_view name = text.substr(at + 1, text.find_first_of(" \t\r\n,[]{}&", at + 1) - at - 1);
    if (!name.empty()) anchors.insert(name);
  }
  return anchors;
}

}  // namespace

std::optional<YamlError> find_yaml_error(std::string_view text, size_t stopped) {
  const TextSet<std::string_view> anchors = anchors_of(text);
  std::vector<size_t> open, indents;
  std::array<YamlLine, 3> lines;                 // the last lines with words
  size_t filled = 0;                             // number of lines with words
  size_t block_scalar = std::string_view::npos;  // indent of a key whose value is a block scalar
  size_t number = 1;
  size_t begin = 0;
  for (; begin < text.size() && begin <= stopped; ++number) {
    YamlLine& line = lines[filled % 3] = read_yaml_line(text, begin, number, open.size());
    begin = std::min(text.find('\n', begin), text.size()) + 1;
    if (line.words.empty() || text_of(text, line.words[0]) == "---" || text_of(text, line.words[0]) == "...") continue;
    if (block_scalar != std::string_view::npos && line.indent > block_scalar) continue;
    block_scalar = std::string_view::npos;
    const YamlLine* before = filled > 0 ? &lines[(filled + 2) % 3] : nullptr;
    const YamlLine* before_that = filled > 1 ? &lines[(filled + 1) % 3] : nullptr;
    if (open.empty()) {
      while (!indents.empty() && indents.back() > line.indent) indents.pop_back();
      if (before == nullptr || (opens_block(*before) && line.indent > before->indent)) indents.push_back(line.indent);
    }
    const LineScan scan{text, line, before, before_that, open, indents, anchors};
    for (const auto check : kLineChecks) {
      if (MaybeError error = check(scan)) return error;
    }
    std::vector<size_t> still_open = open;
    if (MaybeError error = unmatched_bracket(scan, still_open)) return error;
    open = std::move(still_open);
    if (line.words.back().kind == Kind::Plain &&
        std::string_view("|>").find(text[line.words.back().begin]) != std::string_view::npos)
      block_scalar = line.indent;
    ++filled;
  }
  if (open.empty() || filled == 0) return {};
  if (MaybeError error = long_key_after(text, begin, number, anchors, open)) return error;
  const LineScan at_end{text, lines[(filled + 2) % 3], nullptr, nullptr, open, indents, anchors};
  return unclosed(at_end, open.back(), "");
}

std::optional<YamlError> find_key_error(std::string_view key, bool has_value, size_t offset) {
  for (const char quote : {'"', '\''}) {
    if (key.ends_with(quote) && !key.starts_with(quote))
      return YamlError{offset,
                       key.size(),
                       fmt::format("`{}` has a quote at its end, but none at its beginning", short_word(key)),
                       fmt::format("open it with `{}`", quote),
                       {{offset, 0, std::string(1, quote)}}};
  }
  if (MaybeError error = typographic_error(key, offset)) return error;
  if (has_value) return {};
  const size_t sign = key.find_first_of(":=");
  if (sign == 0 || sign == std::string_view::npos || sign + 1 == key.size()) return {};
  const bool colon = key[sign] == ':';
  return YamlError{offset + sign,
                   1,
                   colon ? "no space after the colon" : "expected a colon, found `=`",
                   fmt::format("write `{}: {}`", short_word(key.substr(0, sign)), short_word(key.substr(sign + 1))),
                   {{offset + sign, 1, ": "}}};
}

}  // namespace tpplan
