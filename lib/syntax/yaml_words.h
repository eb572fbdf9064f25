// The words of one line of YAML, as a person reads them: for explaining a document that no parser takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tpplan {

enum class YamlWordKind : uint8_t {
  Quoted,      // with both of its quotes
  OpenQuote,   // to the end of the line
  Plain,       // a scalar without quotes, spaces inside
  Colon,       // behind a key: a space, a bracket or the end of the line follows
  GluedColon,  // directly behind a quoted key, and directly before something
  Comma,
  Open,   // `[` or `{`
  Close,  // `]` or `}`
  Dash    // of a list's item
};

struct YamlWord {
  YamlWordKind kind{};
  size_t begin = 0, end = 0;  // bytes of the text
};

struct YamlLine {
  size_t begin = 0, end = 0;  // bytes of the text, without the line break
  size_t number = 1;
  size_t indent = 0;            // spaces before the first word
  bool has_tab = false;         // a tab stands before the first word
  std::vector<YamlWord> words;  // without comments
};

// The line that begins at `begin`, inside `depth` brackets that earlier lines have left open.
[[nodiscard]] YamlLine read_yaml_line(std::string_view text, size_t begin, size_t number, size_t depth);

[[nodiscard]] inline std::string_view text_of(std::string_view text, const YamlWord& word) {
  return text.substr(word.begin, word.end - word.begin);
}

}  // namespace tpplan
