// What optimizers keep in memory, as rows. A new one is a row in optimizers.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tpplan {

// What an optimizer keeps for each element of a parameter, in float32, cut as the parameter is. Integer types are not
// trained and have no state.
struct Optimizer {
  std::string_view name;
  uint64_t bytes_per_element;
  std::string_view assumption;
};
[[nodiscard]] std::span<const Optimizer> optimizers();
[[nodiscard]] const Optimizer* find_optimizer(std::string_view name);  // nullptr: there is none of that name

}  // namespace tpplan
