// An example of a diagnostic: what two ranks hold and compute, compared with the unsharded model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"

namespace tpplan {

// Numbers, or a text with the reason why there are none.
struct ExampleCell {
  std::vector<double> numbers;
  std::string text;
};

struct ExampleRow {
  std::string name;
  ExampleCell ranks[2];
  ExampleCell global;
};

struct Example {
  Code code{};
  std::string path;       // of the module
  std::string operation;  // or "the gradient"
  bool in_shapes = false;
  std::array<size_t, 2> ranks{0, 1};
  std::vector<ExampleRow> rows;  // empty: there is no example
  std::string conclusion;
  // The smallest sizes with the diagnostic, if `in_shapes` (suggest/smallest_examples.h). 0: unknown.
  std::string mesh;
  int64_t batch = 0, sequence = 0;
};

// Returns human-readable lines, each with a newline.
[[nodiscard]] std::string example_text(const Example& example);

}  // namespace tpplan
