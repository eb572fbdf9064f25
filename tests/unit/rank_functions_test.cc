#include "walk/rank_functions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

using namespace tpplan;

namespace {

std::optional<int64_t> at(const RankFunction& function, int64_t t) {
  for (const FunctionPiece& piece : function) {
    if (t >= piece.begin && t < piece.end) return piece.slope * t + piece.offset;
  }
  return std::nullopt;
}

// Lines, steps and bends, around 0.
std::vector<RankFunction> some_functions() {
  std::vector<RankFunction> functions{same_integer()};
  for (const int64_t n : {-3, 0, 1, 5}) {
    functions.push_back(constant_function(n));
    functions.push_back(*combine("sub", same_integer(), constant_function(n)));
    functions.push_back(*combine("ge", same_integer(), constant_function(n)));
    functions.push_back(
        *combine("maximum", constant_function(n), *combine("mul", same_integer(), constant_function(-2))));
  }
  return functions;
}

}  // namespace

TEST_CASE("what an operation makes of two functions is what it makes of their numbers") {
  const std::pair<std::string_view, std::function<int64_t(int64_t, int64_t)>> operations[] = {
      {"add", [](int64_t a, int64_t b) { return a + b; }},
      {"sub", [](int64_t a, int64_t b) { return a - b; }},
      {"maximum", [](int64_t a, int64_t b) { return std::max(a, b); }},
      {"minimum", [](int64_t a, int64_t b) { return std::min(a, b); }},
      {"lt", [](int64_t a, int64_t b) { return a < b; }},
      {"le", [](int64_t a, int64_t b) { return a <= b; }},
      {"gt", [](int64_t a, int64_t b) { return a > b; }},
      {"ge", [](int64_t a, int64_t b) { return a >= b; }},
      {"eq", [](int64_t a, int64_t b) { return a == b; }},
      {"ne", [](int64_t a, int64_t b) { return a != b; }},
  };
  for (const RankFunction& a : some_functions()) {
    for (const RankFunction& b : some_functions()) {
      for (const auto& [name, apply] : operations) {
        const auto made = combine(name, a, b);
        REQUIRE(made);
        for (int64_t t = -12; t <= 12; ++t) REQUIRE(at(*made, t) == apply(*at(a, t), *at(b, t)));
      }
      const auto condition = combine("lt", a, b);
      const auto chosen = choose(*condition, a, b);
      REQUIRE(chosen);
      for (int64_t t = -12; t <= 12; ++t) REQUIRE(at(*chosen, t) == std::min(*at(a, t), *at(b, t)));
    }
  }
}

TEST_CASE("what goes too far, or is no straight line, is not followed") {
  CHECK_FALSE(combine("mul", same_integer(), same_integer()));
  CHECK_FALSE(combine("mul", constant_function(kFarInteger), constant_function(3)));
  CHECK_FALSE(combine("logical_and", same_integer(), constant_function(1)));
  CHECK_FALSE(combine("floor_divide", same_integer(), constant_function(2)));
}

TEST_CASE("a row is right where the place that is asked for holds the element that the whole model asks for") {
  // Elements 4..6 and 10..11 in a rank's memory, at places 0 to 4.
  const std::vector<ElementRun> places{{4, 7}, {10, 12}};
  const std::vector<int64_t> held{4, 5, 6, 10, 11};
  for (const int64_t shift : {-10, -7, -4, 0, 2}) {
    const RankFunction index = *combine("add", same_integer(), constant_function(shift));
    const auto taken = is_taken(index, same_integer(), places);
    REQUIRE(taken);
    for (int64_t t = -20; t <= 20; ++t) {
      const int64_t place = t + shift;
      const bool right = place >= 0 && place < 5 && held[static_cast<size_t>(place)] == t;
      REQUIRE(at(*taken, t) == (right ? 1 : 2));
    }
  }
}
