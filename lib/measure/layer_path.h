// Layers of a model: modules whose paths differ in their first number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// A path as the layer that it is in, and what stands below.
struct LayerPath {
  std::string_view stack;  // "model.layers"
  int64_t number = -1;     // -1: in no layer
  std::string_view below;  // "self_attn.o_proj"; of what is in no layer the path
};

// The first number of a path is its layer. Later ones, as those of experts, stay in `below`.
[[nodiscard]] LayerPath layer_path(std::string_view path);

// "{0..3, 5}" of ascending numbers.
[[nodiscard]] std::string ranges_text(const std::vector<int64_t>& numbers);

[[nodiscard]] std::string join_path(std::string_view stack, std::string_view below);

// "model.layers.{0..79}", or of one number "model.layers.5".
[[nodiscard]] std::string layers_text(std::string_view stack, const std::vector<int64_t>& numbers);

}  // namespace tpplan
