#include "walk/state/rank_functions.h"

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
  for (const LinearInterval& piece : function) {
    if (t >= piece.begin && t < piece.end) return piece.slope * t + piece.offset;
  }
  return std::nullopt;
}

// Returns lines, steps and kinks around 0.
std::vector<RankFunction> some_functions() {
  std::vector<RankFunction> functions{identity_function()};
  for (const int64_t n : {-3, 0, 1, 5}) {
    functions.push_back(constant_function(n));
    functions.push_back(*apply_to_functions(OpId::Sub, identity_function(), constant_function(n)));
    functions.push_back(*apply_to_functions(OpId::Ge, identity_function(), constant_function(n)));
    functions.push_back(
        *apply_to_functions(OpId::Maximum, constant_function(n),
                            *apply_to_functions(OpId::Mul, identity_function(), constant_function(-2))));
  }
  return functions;
}

}  // namespace

TEST_CASE("operations on functions match those on their values") {
  const OpEntry<std::function<int64_t(int64_t, int64_t)>> operations[] = {
      {OpId::Add, [](int64_t a, int64_t b) { return a + b; }},
      {OpId::Sub, [](int64_t a, int64_t b) { return a - b; }},
      {OpId::Maximum, [](int64_t a, int64_t b) { return std::max(a, b); }},
      {OpId::Minimum, [](int64_t a, int64_t b) { return std::min(a, b); }},
      {OpId::Lt, [](int64_t a, int64_t b) { return a < b; }},
      {OpId::Le, [](int64_t a, int64_t b) { return a <= b; }},
      {OpId::Gt, [](int64_t a, int64_t b) { return a > b; }},
      {OpId::Ge, [](int64_t a, int64_t b) { return a >= b; }},
      {OpId::Eq, [](int64_t a, int64_t b) { return a == b; }},
      {OpId::Ne, [](int64_t a, int64_t b) { return a != b; }},
  };
  for (const RankFunction& a : some_functions()) {
    for (const RankFunction& b : some_functions()) {
      for (const auto& [op, apply] : operations) {
        const auto made = apply_to_functions(op, a, b);
        REQUIRE(made);
        for (int64_t t = -12; t <= 12; ++t) REQUIRE(at(*made, t) == apply(*at(a, t), *at(b, t)));
      }
      const auto condition = apply_to_functions(OpId::Lt, a, b);
      const auto chosen = select_function(*condition, a, b);
      REQUIRE(chosen);
      for (int64_t t = -12; t <= 12; ++t) REQUIRE(at(*chosen, t) == std::min(*at(a, t), *at(b, t)));
    }
  }
}

TEST_CASE("overflow and nonlinear functions are not tracked") {
  CHECK_FALSE(apply_to_functions(OpId::Mul, identity_function(), identity_function()));
  CHECK_FALSE(apply_to_functions(OpId::Mul, constant_function(kFarInteger), constant_function(3)));
  CHECK_FALSE(apply_to_functions(OpId::LogicalAnd, identity_function(), constant_function(1)));
  CHECK_FALSE(apply_to_functions(OpId::FloorDivide, identity_function(), constant_function(2)));
}

TEST_CASE("a row is correct if the local place has the global element") {
  // Elements 4..6 and 10..11 of a rank's shard, at offsets 0 to 4.
  const std::vector<ElementRange> places{{4, 7}, {10, 12}};
  const std::vector<int64_t> held{4, 5, 6, 10, 11};
  for (const int64_t shift : {-10, -7, -4, 0, 2}) {
    const RankFunction index = *apply_to_functions(OpId::Add, identity_function(), constant_function(shift));
    const auto taken = compare_element(index, identity_function(), places);
    REQUIRE(taken);
    for (int64_t t = -20; t <= 20; ++t) {
      const int64_t place = t + shift;
      const bool right = place >= 0 && place < 5 && held[static_cast<size_t>(place)] == t;
      REQUIRE(at(*taken, t) == (right ? 1 : 2));
    }
  }
}
