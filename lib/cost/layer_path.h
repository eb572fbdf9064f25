// Layers of a model: modules whose paths differ in their first number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// A path split into its layer and the path inside the layer.
struct LayerPath {
  std::string_view stack;  // "model.layers"
  int64_t number = -1;     // -1: in no layer
  std::string_view below;  // "self_attn.o_proj"; the full path if it is in no layer
};

// The first number of a path is its layer. Later ones, as those of experts, stay in `below`.
[[nodiscard]] LayerPath layer_path(std::string_view path);

// Returns "{0..3, 5}" for ascending numbers.
[[nodiscard]] std::string ranges_text(const std::vector<int64_t>& numbers);

[[nodiscard]] std::string join_path(std::string_view stack, std::string_view below);

// Returns "model.layers.{0..79}", or "model.layers.5" for one number.
[[nodiscard]] std::string layers_text(std::string_view stack, const std::vector<int64_t>& numbers);

}  // namespace tpplan
