// Explains YAML that does not parse. yaml-cpp often stops a line too late and reports what it expected. These functions
// read the lines again and look for common human errors.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "text/yaml_error.h"

namespace tpplan {

// Returns the first error on the lines up to the one of byte `stopped`, where the parser stopped. Takes linear time.
[[nodiscard]] std::optional<YamlError> find_yaml_error(std::string_view text, size_t stopped);

// Returns the error of a key that is valid YAML but surely a typo: a quote at one end only, or `tp:8` and `dp=2` if
// `has_value` is false. `offset` is the position of the key.
[[nodiscard]] std::optional<YamlError> find_key_error(std::string_view key, bool has_value, size_t offset);

}  // namespace tpplan
