// How a model is trained, as far as memory goes: rows. A new one is a row in recipes.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sharding/dtype.h"

namespace tpplan {

// In what type something is kept for each element of a parameter.
enum class KeptAs : uint8_t { None, Parameter, Float32 };

struct Recipe {
  std::string_view name;
  KeptAs gradient = KeptAs::Parameter;
  bool master = false;  // a float32 copy of parameters of a narrower type
  int states = 0;       // of the optimizer
  KeptAs state = KeptAs::None;
  std::string_view assumption{};
};

// What training adds to a parameter, cut as it is: bytes.
struct TrainedBytes {
  uint64_t gradient = 0;
  uint64_t master = 0;
  uint64_t state = 0;  // each of the recipe's
};

// For so many elements of a parameter of this type; kTooManyBytes (sharding/dtype.h) beyond 64 bits. Integer types are
// not trained: nothing.
[[nodiscard]] TrainedBytes trained_bytes(const Recipe& recipe, DType dtype, uint64_t elements);

[[nodiscard]] std::span<const Recipe> recipes();
[[nodiscard]] const Recipe* find_recipe(std::string_view name);  // nullptr: there is none of that name

// Where nobody names one.
inline constexpr std::string_view kDefaultRecipe = "adamw";

}  // namespace tpplan
