// A finding shown on two ranks: what each has and makes of it, beside the whole model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"

namespace tpplan {

// Numbers, or in their place a text: why there are none.
struct ExampleCell {
  std::vector<double> numbers;
  std::string text;
};

struct ExampleRow {
  std::string name;
  ExampleCell ranks[2];
  ExampleCell whole;
};

struct Example {
  Code code{};
  std::string path;       // of the module
  std::string operation;  // or "the gradient"
  bool in_shapes = false;
  std::array<size_t, 2> ranks{0, 1};
  std::vector<ExampleRow> rows;  // none: there is no example
  std::string conclusion;
  // Of shapes: the smallest sizes with the finding (remedy/smallest_examples.h). 0: not looked for.
  std::string mesh;
  int64_t batch = 0, sequence = 0;
};

// Lines for people, each with its end.
[[nodiscard]] std::string example_text(const Example& example);

}  // namespace tpplan
