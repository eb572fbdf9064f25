// A line of invalid YAML with its words and the state of the preceding lines, and checks for errors in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "text/yaml_error.h"
#include "text/yaml_words.h"

namespace tpplan {

struct LineScan {
  std::string_view text;
  const YamlLine& line;
  const YamlLine* before;                    // the preceding line that has words
  const YamlLine* before_that;               // and its preceding line that has words
  const std::vector<size_t>& open;           // offsets of the brackets that are open at the line's beginning
  const std::vector<size_t>& indents;        // indents of the mappings that the line may belong to, the outermost first
  const TextSet<std::string_view>& anchors;  // all anchor names of the text
};

[[nodiscard]] std::string_view word_at(const LineScan& s, size_t i);
[[nodiscard]] bool word_has_kind(const LineScan& s, size_t i, YamlWordKind kind);
[[nodiscard]] std::string short_word(std::string_view word);

// Returns the first error in the line's characters, quotes and comments. Ignores the lines around it.
[[nodiscard]] std::optional<YamlError> find_word_error(const LineScan& s);
// Returns an error if the word begins with a typographic quote, as word processors write them.
[[nodiscard]] std::optional<YamlError> typographic_error(std::string_view word, size_t at);
// Returns the error of an unmatched quote, or of an escape that YAML does not have. Call it after the checks for open
// brackets, because these explain more.
[[nodiscard]] std::optional<YamlError> find_quote_error(const LineScan& s);

// Returns an error if a template variable (`{{ tp }}`, `${TP}`) begins at `offset` or directly before it.
[[nodiscard]] std::optional<YamlError> find_variable_error(std::string_view text, size_t offset);

}  // namespace tpplan
