// Training recipes: the dtypes of gradients, master weights and optimizer states. Rows are in recipes.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sharding/dtype.h"

namespace tpplan {

// The dtype of something that exists for each element of a parameter.
enum class ElementDtype : uint8_t { None, Parameter, Float32 };

struct Recipe {
  std::string_view name;
  ElementDtype gradient = ElementDtype::Parameter;
  bool master = false;  // a float32 copy of parameters of a narrower type
  int states = 0;       // of the optimizer
  ElementDtype state = ElementDtype::None;
  std::string_view assumption{};
};

// What training adds to a parameter, cut as it is: bytes.
struct TrainedBytes {
  uint64_t gradient = 0;
  uint64_t master = 0;
  uint64_t state = 0;  // for each optimizer state
};

// Returns the bytes for `elements` of a parameter; kTooManyBytes (sharding/dtype.h) if they exceed 64 bits. Zero for
// integer dtypes, which are not trained.
[[nodiscard]] TrainedBytes trained_bytes(const Recipe& recipe, DType dtype, uint64_t elements);

// True if a rank keeps its shard of a parameter in float32 only: fully_shard with a mixed recipe casts what it gathers.
[[nodiscard]] bool keeps_float32_shard(const Recipe& recipe, bool has_fsdp, DType dtype);

[[nodiscard]] std::span<const Recipe> recipes();
[[nodiscard]] std::vector<std::string_view> recipe_names();
[[nodiscard]] const Recipe* find_recipe(std::string_view name);  // nullptr: there is none of that name

// Where nobody names one.
inline constexpr std::string_view kDefaultRecipe = "adamw";

}  // namespace tpplan
