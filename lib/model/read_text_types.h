// Names, counts and types in the graph notation.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/graph_text_reader.h"

namespace tpplan {

// Reads a path, a keyword or the name of an operation. `what` is its noun in the error.
[[nodiscard]] bool read_text_path(TextReader& reader, std::string_view& path, std::string_view what);

// Reads the new name of a value: an identifier that is neither a reserved word, except `_`, nor the name of a size.
[[nodiscard]] bool read_text_name(TextReader& reader, std::string_view& name);

[[nodiscard]] bool read_text_count(TextReader& reader, int64_t& count);

struct TextType {
  std::string_view dtype;
  std::vector<int64_t> shape;
  bool requires_grad = false;
};

// Reads `float32[2, 8]`, and `grad` or `no_grad` if requires_grad differs from the default: `may_have_grad` and a
// floating-point or complex dtype.
[[nodiscard]] bool read_text_type(TextReader& reader, bool may_have_grad, TextType& type);

// Appends a value of this type to OpGraph::values.
[[nodiscard]] ValueId add_text_value(TextReader& reader, const TextType& type);

}  // namespace tpplan
