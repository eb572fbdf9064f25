#include "text/yaml_line_scan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace tpplan {
namespace {

using WordKind = YamlWordKind;
using LineError = std::optional<YamlError>;

constexpr size_t kShownWord = 40;

// Starts of template and shell variables, which are not expanded here.
constexpr std::string_view kVariables[] = {"${", "{{"};

}  // namespace

std::string_view word_at(const LineScan& s, size_t i) {
  return i < s.line.words.size() ? text_of(s.text, s.line.words[i]) : std::string_view{};
}

bool word_has_kind(const LineScan& s, size_t i, YamlWordKind kind) {
  return i < s.line.words.size() && s.line.words[i].kind == kind;
}

std::string short_word(std::string_view word) {
  std::string text(word);
  shorten(text, kShownWord);
  return text;
}

std::optional<YamlError> typographic_error(std::string_view word, size_t at) {
  for (const std::string_view quote : {"\u201c", "\u201d", "\u2018", "\u2019", "\u00ab"}) {
    if (!word.starts_with(quote)) continue;
    return YamlError{at,
                     quote.size(),
                     fmt::format("`{}` is not a quote in YAML", quote),
                     "use the straight quote `\"` on both sides",
                     {}};
  }
  return {};
}

namespace {

// Returns the indentation of the first line after `at` that has text and no tab in its indentation; nullopt if there is
// none.
std::optional<size_t> indent_after(std::string_view text, size_t at) {
  while ((at = text.find('\n', at)) != std::string_view::npos) {
    ++at;
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    const size_t first = line.find_first_not_of(" \t");
    if (first != std::string_view::npos && line[first] != '#' && line.find('\t') >= first) return first;
  }
  return std::nullopt;
}

// The fix is certain between two lines of one indentation.
LineError tab_in_indent(const LineScan& s) {
  if (!s.line.has_tab || s.line.words.empty()) return {};
  const size_t at = s.text.find('\t', s.line.begin);
  YamlError error{at, 1, "the line is indented with a tab", "indent with spaces: YAML does not allow tabs", {}};
  if (s.before != nullptr && !s.before->has_tab && indent_after(s.text, s.line.begin) == s.before->indent)
    error.edits = {{s.line.begin, s.line.words[0].begin - s.line.begin, std::string(s.before->indent, ' ')}};
  return error;
}

LineError merge_key(const LineScan& s) {
  if (word_at(s, 0) != "<<") return {};
  return YamlError{s.line.words[0].begin, 2, "merge keys (`<<`) are not supported", "write the merged keys out", {}};
}

// Returns an error if the line has a comment in the syntax of other languages.
LineError slash_comment(const LineScan& s) {
  for (const std::string_view mark : {"//", "/*"}) {
    if (!word_at(s, 0).starts_with(mark)) continue;
    const size_t at = s.line.words[0].begin;
    return YamlError{at, 2, fmt::format("`{}` does not begin a comment in YAML", mark), "write `#`", {{at, 2, "#"}}};
  }
  return {};
}

// Returns an error if the line is a merge conflict marker of git.
LineError conflict_mark(const LineScan& s) {
  constexpr size_t kMark = 7;
  const std::string_view line = s.text.substr(s.line.begin, s.line.end - s.line.begin);
  for (const char c : {'<', '=', '>', '|'}) {
    if (!line.starts_with(std::string(kMark, c)) || (line.size() > kMark && line[kMark] != ' ')) continue;
    return YamlError{
        s.line.begin, kMark, "a merge conflict is not resolved", "keep one side, and remove the conflict markers", {}};
  }
  return {};
}

LineError template_variable(const LineScan& s) {
  const std::string_view line = s.text.substr(s.line.begin, s.line.end - s.line.begin);
  for (const std::string_view mark : kVariables) {
    const size_t at = line.find(mark);
    if (at == std::string_view::npos) continue;
    if (LineError error = find_variable_error(s.text, s.line.begin + at)) return error;
  }
  return {};
}

// Returns an error if the line has invisible characters, or ones that look like ASCII, outside of quotes.
LineError strange_character(const LineScan& s) {
  struct Row {
    std::string_view character, meant;
  };
  static constexpr Row kRows[] = {{"\uff1a", ":"}, {"\uff0c", ","}, {"\uff5b", "{"}, {"\uff5d", "}"}};
  for (const YamlWord& word : s.line.words) {
    if (word.kind != WordKind::Plain) continue;
    const std::string_view said = text_of(s.text, word);
    for (size_t i = 0; i < said.size();) {
      const std::string_view rest = said.substr(i);
      const size_t length = std::max<size_t>(1, utf8_length(rest));
      const size_t at = word.begin + i;
      const auto* row =
          std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return rest.starts_with(r.character); });
      if (row != std::end(kRows))
        return YamlError{at,
                         length,
                         fmt::format("`{}` is not the `{}` of YAML", row->character, row->meant),
                         fmt::format("write `{}`", row->meant),
                         {}};
      if (length > 1 && is_invisible(code_point(rest.substr(0, length))))
        return YamlError{at,
                         length,
                         fmt::format("U+{:04X} looks like a space or is invisible",
                                     static_cast<uint32_t>(code_point(rest.substr(0, length)))),
                         "write a space, or remove it",
                         {}};
      i += length;
    }
  }
  return {};
}

LineError typographic_quote(const LineScan& s) {
  for (const YamlWord& word : s.line.words) {
    if (word.kind != WordKind::Plain) continue;
    if (LineError error = typographic_error(text_of(s.text, word), word.begin)) return error;
  }
  return {};
}

// Returns an error if a word begins with a character that YAML reserves there.
LineError reserved_character(const LineScan& s) {
  struct Row {
    char character;
    std::string_view is;
  };
  static constexpr Row kRows[] = {{'*', "a YAML alias"},     {'&', "a YAML anchor"},    {'!', "a YAML tag"},
                                  {'@', "reserved in YAML"}, {'`', "reserved in YAML"}, {'%', "a YAML directive"}};
  for (const YamlWord& word : s.line.words) {
    if (word.kind != WordKind::Plain) continue;
    const std::string_view said = text_of(s.text, word);
    const auto* row =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return said.starts_with(r.character); });
    if (row == std::end(kRows)) continue;
    // Skips aliases of existing anchors. A tag or an anchor precedes its value.
    if (row->character == '*' && s.anchors.contains(said.substr(1))) continue;
    const bool is_key = &word == s.line.words.data() && word_has_kind(s, 1, WordKind::Colon);
    if ((row->character == '&' || row->character == '!') && (!is_key || said.find(' ') != std::string_view::npos))
      continue;
    const std::string help = row->character == '*'
                                 ? fmt::format("quote patterns that start with `*`: `\"{}\"`", short_word(said))
                                 : fmt::format("quote it: `\"{}\"`", short_word(said));
    return YamlError{word.begin,
                     said.size(),
                     fmt::format("without quotes `{}` is {}", row->character, row->is),
                     help,
                     {{word.begin, 0, "\""}, {word.end, 0, "\""}}};
  }
  return {};
}

// Returns an error if a `|` or `>`, which begins a block scalar, is followed by more than its indicators.
LineError block_of_text(const LineScan& s) {
  const YamlWord& word = s.line.words.back();
  const std::string_view said = text_of(s.text, word);
  if (!s.open.empty() || word.kind != WordKind::Plain || said.find_first_of("|>") != 0) return {};
  if (said.find_first_not_of("|>+-0123456789") == std::string_view::npos) return {};
  return YamlError{word.begin,
                   said.size(),
                   fmt::format("without quotes `{}` begins a block scalar", said[0]),
                   fmt::format("quote it, or remove the `{}`", said[0]),
                   {}};
}

// Returns an error if a pattern such as `[qk]_proj: colwise` is unquoted, so that YAML reads a list.
LineError pattern_as_list(const LineScan& s) {
  if (!s.open.empty() || !word_has_kind(s, 0, WordKind::Open)) return {};
  const auto& words = s.line.words;
  const auto colon =
      std::find_if(words.begin(), words.end(), [](const YamlWord& w) { return w.kind == WordKind::Colon; });
  const auto close =
      std::find_if(words.begin(), words.end(), [](const YamlWord& w) { return w.kind == WordKind::Close; });
  if (colon == words.end() || close == words.end() || close >= colon) return {};
  const std::string_view key = s.text.substr(words[0].begin, colon->begin - words[0].begin);
  return YamlError{words[0].begin,
                   key.size(),
                   fmt::format("without quotes `{}` begins a list or a mapping", key[0]),
                   fmt::format("quote the pattern: `\"{}\"`", short_word(key)),
                   {{words[0].begin, 0, "\""}, {colon->begin, 0, "\""}}};
}

LineError open_quote(const LineScan& s) {
  for (const YamlWord& word : s.line.words) {
    if (word.kind != WordKind::OpenQuote) continue;
    const char quote = s.text[word.begin];
    const std::string_view said = text_of(s.text, word);
    const size_t colon = said.find(": ");
    if (colon == std::string_view::npos)
      return YamlError{
          word.begin, said.size(), "the quote is not closed", fmt::format("close it with `{}`", quote), {}};
    const bool other = colon > 1 && (said[colon - 1] == '"' || said[colon - 1] == '\'');
    const std::string_view key = said.substr(0, colon - other);
    return YamlError{
        word.begin,
        said.size(),
        other ? fmt::format("the quote `{}` is not closed by `{}`", quote, said[colon - 1]) : "the quote is not closed",
        other ? fmt::format("use the same quote on both sides, `{}`", quote)
              : fmt::format("close it with `{}` before the colon", quote),
        {{word.begin + key.size(), other ? size_t{1} : size_t{0}, std::string(1, quote)}}};
  }
  return {};
}

// Returns an error if a quoted text has an escape that YAML does not have, as in regular expressions.
LineError unknown_escape(const LineScan& s) {
  for (const YamlWord& word : s.line.words) {
    const std::string_view said = text_of(s.text, word);
    if (word.kind != WordKind::Quoted || said[0] != '"') continue;
    for (size_t i = 1; i + 1 < said.size(); ++i) {
      if (said[i] != '\\') continue;
      if (std::string_view("0abt\tnvfre \"/\\N_LPxuU").find(said[++i]) != std::string_view::npos) continue;
      const std::string_view inner = said.substr(1, said.size() - 2);
      YamlError error{word.begin + i - 1,
                      2,
                      fmt::format("`\\{}` is not an escape in double quotes", said[i]),
                      "use single quotes, where backslashes are literal",
                      {}};
      if (inner.find_first_of("'\"") == std::string_view::npos && inner.find("\\\\") == std::string_view::npos)
        error.edits = {{word.begin, 1, "'"}, {word.end - 1, 1, "'"}};
      return error;
    }
  }
  return {};
}

// Returns the code unit of an escape with four hex digits at `at`, if there is one.
std::optional<uint32_t> unicode_escape(std::string_view text, size_t at) {
  uint32_t number = 0;
  const std::string_view escape = text.substr(std::min(at, text.size()), 6);
  if (escape.size() < 6 || !escape.starts_with("\\u")) return {};
  const auto [end, error] = std::from_chars(escape.data() + 2, escape.data() + 6, number, 16);
  return error == std::errc() && end == escape.data() + 6 ? std::optional(number) : std::nullopt;
}

// Returns an error if two escapes form a surrogate pair, as in JSON. YAML uses one escape with eight digits.
LineError surrogate_escape(const LineScan& s) {
  std::optional<YamlError> error;
  for (const YamlWord& word : s.line.words) {
    const std::string_view said = text_of(s.text, word);
    if (word.kind != WordKind::Quoted || said[0] != '"') continue;
    for (size_t i = 1; i + 1 < said.size(); ++i) {
      if (said[i] != '\\') continue;
      const std::optional<uint32_t> high = unicode_escape(said, i), low = unicode_escape(said, i + 6);
      const bool is_half = high && *high >= 0xd800 && *high < 0xe000;
      const bool is_pair = is_half && *high < 0xdc00 && low && *low >= 0xdc00 && *low < 0xe000;
      if (is_half && !is_pair && !error)
        return YamlError{word.begin + i,
                         6,
                         fmt::format("`{}` is half of a character", said.substr(i, 6)),
                         "write the character itself",
                         {}};
      if (!is_pair) {
        ++i;
        continue;
      }
      const std::string whole = fmt::format("\\U{:08X}", 0x10000 + ((*high - 0xd800) << 10) + (*low - 0xdc00));
      if (!error)
        error = YamlError{word.begin + i,
                          12,
                          fmt::format("`{}` is a character in JSON, but not in YAML", said.substr(i, 12)),
                          fmt::format("write `{}`, or the character itself", whole),
                          {}};
      error->edits.push_back({word.begin + i, 12, whole});
      i += 11;
    }
  }
  return error;
}

}  // namespace

std::optional<YamlError> find_variable_error(std::string_view text, size_t offset) {
  for (const std::string_view mark : kVariables) {
    for (const size_t at : {offset, std::max<size_t>(offset, 1) - 1}) {
      const std::string_view rest = text.substr(at, text.find('\n', at) - at);
      if (!rest.starts_with(mark) || rest.find(mark == "${" ? "}" : "}}") == std::string_view::npos) continue;
      return YamlError{at,
                       mark.size(),
                       fmt::format("`{}` is not a variable in YAML", mark),
                       "write the value; sizes of the mesh may come from the command line: `--mesh tp=8`",
                       {}};
    }
  }
  return {};
}

std::optional<YamlError> find_word_error(const LineScan& s) {
  for (const auto check : {tab_in_indent, conflict_mark, merge_key, slash_comment, template_variable, typographic_quote,
                           strange_character, pattern_as_list, reserved_character, block_of_text}) {
    if (LineError error = check(s)) return error;
  }
  return {};
}

std::optional<YamlError> find_quote_error(const LineScan& s) {
  for (const auto check : {open_quote, unknown_escape, surrogate_escape}) {
    if (LineError error = check(s)) return error;
  }
  return {};
}

}  // namespace tpplan
