// A line of YAML that no parser takes, as the checks for slips look at it: its words, and what is known of the lines
// before it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "syntax/yaml_slips.h"
#include "syntax/yaml_words.h"

namespace tpplan {

struct LineScan {
  std::string_view text;
  const YamlLine& line;
  const YamlLine* before;                    // the line with words before it
  const YamlLine* before_that;               // and the one before that
  const std::vector<size_t>& open;           // brackets that are open at its beginning: their offsets
  const std::vector<size_t>& indents;        // of the mappings that the line may belong to, the outermost first
  const TextSet<std::string_view>& anchors;  // names behind `&`, wherever they stand
};

[[nodiscard]] std::string_view word_at(const LineScan& s, size_t i);
[[nodiscard]] bool is_at(const LineScan& s, size_t i, YamlWordKind kind);
[[nodiscard]] std::string shown(std::string_view word);

// What a line says by itself, whatever stands around it: the first slip of its characters, quotes and comments.
[[nodiscard]] std::optional<YamlSlip> find_word_slip(const LineScan& s);
// What word processors make of quotes, at the beginning of a word.
[[nodiscard]] std::optional<YamlSlip> typographic_slip(std::string_view word, size_t at);
// A quote without its other one, and escapes that YAML does not have: behind the brackets that lines leave open.
[[nodiscard]] std::optional<YamlSlip> find_quote_slip(const LineScan& s);

}  // namespace tpplan
