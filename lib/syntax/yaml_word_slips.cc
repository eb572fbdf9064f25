#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "syntax/yaml_line_scan.h"

namespace tpplan {
namespace {

using WordKind = YamlWordKind;
using WordSlip = std::optional<YamlSlip>;

constexpr size_t kShownWord = 40;

// What templates and shells fill in, and nobody does here.
constexpr std::string_view kVariables[] = {"${", "{{"};

}  // namespace

std::string_view word_at(const LineScan& s, size_t i) {
  return i < s.line.words.size() ? text_of(s.text, s.line.words[i]) : std::string_view{};
}

bool is_at(const LineScan& s, size_t i, YamlWordKind kind) {
  return i < s.line.words.size() && s.line.words[i].kind == kind;
}

std::string shown(std::string_view word) {
  std::string text(word);
  shorten(text, kShownWord);
  return text;
}

std::optional<YamlSlip> typographic_slip(std::string_view word, size_t at) {
  for (const std::string_view quote : {"\u201c", "\u201d", "\u2018", "\u2019", "\u00ab"}) {
    if (!word.starts_with(quote)) continue;
    return YamlSlip{at,
                    quote.size(),
                    fmt::format("`{}` is no quote in YAML", quote),
                    "use the straight quote `\"` on both sides",
                    {}};
  }
  return {};
}

namespace {

WordSlip tab_in_indent(const LineScan& s) {
  if (!s.line.has_tab || s.line.words.empty()) return {};
  const size_t at = s.text.find('\t', s.line.begin);
  return YamlSlip{at, 1, "the line is indented with a tab", "indent with spaces: YAML does not allow tabs", {}};
}

WordSlip merge_key(const LineScan& s) {
  if (word_at(s, 0) != "<<") return {};
  return YamlSlip{s.line.words[0].begin, 2, "merge keys (`<<`) are not read", "write the merged keys out", {}};
}

// Comments of other languages.
WordSlip slash_comment(const LineScan& s) {
  for (const std::string_view mark : {"//", "/*"}) {
    if (!word_at(s, 0).starts_with(mark)) continue;
    const size_t at = s.line.words[0].begin;
    return YamlSlip{at, 2, fmt::format("`{}` begins no comment in YAML", mark), "write `#`", {{at, 2, "#"}}};
  }
  return {};
}

// What git leaves where two versions of a line meet.
WordSlip conflict_mark(const LineScan& s) {
  constexpr size_t kMark = 7;
  const std::string_view line = s.text.substr(s.line.begin, s.line.end - s.line.begin);
  for (const char c : {'<', '=', '>', '|'}) {
    if (!line.starts_with(std::string(kMark, c)) || (line.size() > kMark && line[kMark] != ' ')) continue;
    return YamlSlip{s.line.begin, kMark, "a merge conflict is not resolved here", "keep one side, and no marks", {}};
  }
  return {};
}

WordSlip template_variable(const LineScan& s) {
  const std::string_view line = s.text.substr(s.line.begin, s.line.end - s.line.begin);
  for (const std::string_view mark : kVariables) {
    const size_t at = line.find(mark);
    if (at == std::string_view::npos) continue;
    if (WordSlip slip = find_variable_slip(s.text, s.line.begin + at)) return slip;
  }
  return {};
}

// Characters that look like others, or like nothing, outside of quotes.
WordSlip strange_character(const LineScan& s) {
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
        return YamlSlip{at,
                        length,
                        fmt::format("`{}` is not the `{}` of YAML", row->character, row->meant),
                        fmt::format("write `{}`", row->meant),
                        {}};
      if (length > 1 && is_unseen(code_point(rest.substr(0, length))))
        return YamlSlip{at,
                        length,
                        fmt::format("U+{:04X} stands here, which looks like a space or like nothing",
                                    static_cast<uint32_t>(code_point(rest.substr(0, length)))),
                        "write a space, or nothing",
                        {}};
      i += length;
    }
  }
  return {};
}

WordSlip typographic_quote(const LineScan& s) {
  for (const YamlWord& word : s.line.words) {
    if (word.kind != WordKind::Plain) continue;
    if (WordSlip slip = typographic_slip(text_of(s.text, word), word.begin)) return slip;
  }
  return {};
}

// Characters that YAML keeps for itself at the beginning of a word.
WordSlip reserved_character(const LineScan& s) {
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
    // An alias of an anchor that the document has is none, and a tag or an anchor stands before what it is of.
    if (row->character == '*' && s.anchors.contains(said.substr(1))) continue;
    const bool is_key = &word == s.line.words.data() && is_at(s, 1, WordKind::Colon);
    if ((row->character == '&' || row->character == '!') && (!is_key || said.find(' ') != std::string_view::npos))
      continue;
    const std::string help = row->character == '*'
                                 ? fmt::format("quote patterns that start with `*`: `\"{}\"`", shown(said))
                                 : fmt::format("quote it: `\"{}\"`", shown(said));
    return YamlSlip{word.begin,
                    said.size(),
                    fmt::format("without quotes `{}` is {}", row->character, row->is),
                    help,
                    {{word.begin, 0, "\""}, {word.end, 0, "\""}}};
  }
  return {};
}

// `|` and `>` begin a block of text, and nothing but how it ends stands behind them.
WordSlip block_of_text(const LineScan& s) {
  const YamlWord& word = s.line.words.back();
  const std::string_view said = text_of(s.text, word);
  if (!s.open.empty() || word.kind != WordKind::Plain || said.find_first_of("|>") != 0) return {};
  if (said.find_first_not_of("|>+-0123456789") == std::string_view::npos) return {};
  return YamlSlip{word.begin,
                  said.size(),
                  fmt::format("without quotes `{}` begins a block of text", said[0]),
                  fmt::format("quote it, or leave out the `{}`", said[0]),
                  {}};
}

// `[qk]_proj: colwise`: a pattern, which YAML takes for a list.
WordSlip pattern_as_list(const LineScan& s) {
  if (!s.open.empty() || !is_at(s, 0, WordKind::Open)) return {};
  const auto& words = s.line.words;
  const auto colon =
      std::find_if(words.begin(), words.end(), [](const YamlWord& w) { return w.kind == WordKind::Colon; });
  const auto close =
      std::find_if(words.begin(), words.end(), [](const YamlWord& w) { return w.kind == WordKind::Close; });
  if (colon == words.end() || close == words.end() || close >= colon) return {};
  const std::string_view key = s.text.substr(words[0].begin, colon->begin - words[0].begin);
  return YamlSlip{words[0].begin,
                  key.size(),
                  fmt::format("without quotes `{}` begins a list or a mapping", key[0]),
                  fmt::format("quote the pattern: `\"{}\"`", shown(key)),
                  {{words[0].begin, 0, "\""}, {colon->begin, 0, "\""}}};
}

WordSlip open_quote(const LineScan& s) {
  for (const YamlWord& word : s.line.words) {
    if (word.kind != WordKind::OpenQuote) continue;
    const char quote = s.text[word.begin];
    const std::string_view said = text_of(s.text, word);
    const size_t colon = said.find(": ");
    if (colon == std::string_view::npos)
      return YamlSlip{word.begin, said.size(), "the quote is not closed", fmt::format("close it with `{}`", quote), {}};
    const bool other = colon > 1 && (said[colon - 1] == '"' || said[colon - 1] == '\'');
    const std::string_view key = said.substr(0, colon - other);
    return YamlSlip{
        word.begin,
        said.size(),
        other ? fmt::format("the quote `{}` is not closed by `{}`", quote, said[colon - 1]) : "the quote is not closed",
        other ? fmt::format("use the same quote on both sides, `{}`", quote)
              : fmt::format("close it with `{}` before the colon", quote),
        {{word.begin + key.size(), other ? size_t{1} : size_t{0}, std::string(1, quote)}}};
  }
  return {};
}

// Escapes that YAML does not have, where somebody wrote a regular expression.
WordSlip unknown_escape(const LineScan& s) {
  for (const YamlWord& word : s.line.words) {
    const std::string_view said = text_of(s.text, word);
    if (word.kind != WordKind::Quoted || said[0] != '"') continue;
    for (size_t i = 1; i + 1 < said.size(); ++i) {
      if (said[i] != '\\') continue;
      if (std::string_view("0abt\tnvfre \"/\\N_LPxuU").find(said[++i]) != std::string_view::npos) continue;
      const std::string_view inner = said.substr(1, said.size() - 2);
      YamlSlip slip{word.begin + i - 1,
                    2,
                    fmt::format("`\\{}` is no escape in double quotes", said[i]),
                    "use single quotes, which leave backslashes alone",
                    {}};
      if (inner.find_first_of("'\"") == std::string_view::npos && inner.find("\\\\") == std::string_view::npos)
        slip.edits = {{word.begin, 1, "'"}, {word.end - 1, 1, "'"}};
      return slip;
    }
  }
  return {};
}

}  // namespace

std::optional<YamlSlip> find_variable_slip(std::string_view text, size_t offset) {
  for (const std::string_view mark : kVariables) {
    for (const size_t at : {offset, std::max<size_t>(offset, 1) - 1}) {
      const std::string_view rest = text.substr(at, text.find('\n', at) - at);
      if (!rest.starts_with(mark) || rest.find(mark == "${" ? "}" : "}}") == std::string_view::npos) continue;
      return YamlSlip{at,
                      mark.size(),
                      fmt::format("`{}` is no variable in YAML", mark),
                      "write the value; sizes of the mesh may come from the command line: `--mesh tp=8`",
                      {}};
    }
  }
  return {};
}

std::optional<YamlSlip> find_word_slip(const LineScan& s) {
  for (const auto check : {tab_in_indent, conflict_mark, merge_key, slash_comment, template_variable, typographic_quote,
                           strange_character, pattern_as_list, reserved_character, block_of_text}) {
    if (WordSlip slip = check(s)) return slip;
  }
  return {};
}

std::optional<YamlSlip> find_quote_slip(const LineScan& s) {
  WordSlip slip = open_quote(s);
  return slip ? slip : unknown_escape(s);
}

}  // namespace tpplan
