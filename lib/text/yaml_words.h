// Splits one line of YAML into words without a parser, to explain documents that do not parse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tpplan {

enum class YamlWordKind : uint8_t {
  Quoted,      // with both quotes
  OpenQuote,   // without a closing quote on the line
  Plain,       // an unquoted scalar, possibly with spaces
  Colon,       // after a key, followed by a space, a bracket or the end of the line
  GluedColon,  // between a quoted key and other text, without spaces
  Comma,
  Open,   // `[` or `{`
  Close,  // `]` or `}`
  Dash    // starts a list item
};

struct YamlWord {
  YamlWordKind kind{};
  size_t begin = 0, end = 0;  // bytes of the text
};

struct YamlLine {
  size_t begin = 0, end = 0;  // bytes of the text, without the line break
  size_t number = 1;
  size_t indent = 0;            // spaces before the first word
  bool has_tab = false;         // a tab precedes the first word
  std::vector<YamlWord> words;  // without comments
};

// Returns the line that begins at `begin`. `depth` is the number of brackets that earlier lines leave open.
[[nodiscard]] YamlLine read_yaml_line(std::string_view text, size_t begin, size_t number, size_t depth);

[[nodiscard]] inline std::string_view text_of(std::string_view text, const YamlWord& word) {
  return text.substr(word.begin, word.end - word.begin);
}

}  // namespace tpplan
