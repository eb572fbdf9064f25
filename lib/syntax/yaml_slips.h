// What a person meant by YAML that no parser takes. yaml-cpp stops where it cannot go on, often a line too late, and
// says what it looked for; here the lines are read again as a person reads them, for the slips that people make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Bytes of the text, and what should stand there.
struct YamlEdit {
  size_t offset = 0, length = 0;
  std::string text;
};

struct YamlSlip {
  size_t offset = 0, length = 1;
  std::string message;
  std::string help;
  std::vector<YamlEdit> edits;  // which mend it; empty where there is more than one way
};

// The first slip on the lines up to that of byte `stopped`, where the parser gave up. Linear in the text before it.
[[nodiscard]] std::optional<YamlSlip> find_yaml_slip(std::string_view text, size_t stopped);

// A key in a mapping that YAML takes and nobody means: `tp:8`, `dp=2`, a quote at one end. `has_value`: something
// stands behind it. `offset` is its place.
[[nodiscard]] std::optional<YamlSlip> find_key_slip(std::string_view key, bool has_value, size_t offset);

// A variable of a template (`{{ tp }}`, `${TP}`) that begins at `offset` or directly before it.
[[nodiscard]] std::optional<YamlSlip> find_variable_slip(std::string_view text, size_t offset);

}  // namespace tpplan
