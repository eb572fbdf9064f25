// Integers that differ by rank: each rank's element as a function of a global integer and of the rank's mesh
// coordinates. The functions are exact and piecewise linear, as code derives them from token ids and shard offsets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/op_id.h"

namespace tpplan {

// slope * t + offset for t in [begin, end).
struct LinearInterval {
  int64_t begin = 0, end = 0;
  int64_t slope = 0, offset = 0;
  bool operator==(const LinearInterval&) const = default;
};

// Pieces in ascending order: of all integers, or of the ones in question.
using RankFunction = std::vector<LinearInterval>;

// Larger integers are not tracked.
inline constexpr int64_t kFarInteger = int64_t{1} << 40;

[[nodiscard]] RankFunction constant_function(int64_t number);
[[nodiscard]] RankFunction identity_function();  // returns t
[[nodiscard]] std::optional<int64_t> constant_of(const RankFunction& function);

// Applies an operation to two functions; booleans are 0 and 1. Returns nullopt for an operation that is not supported
// and if numbers get too large.
[[nodiscard]] std::optional<RankFunction> apply_to_functions(OpId op, const RankFunction& a, const RankFunction& b);
[[nodiscard]] std::optional<RankFunction> select_function(const RankFunction& condition, const RankFunction& yes,
                                                          const RankFunction& no);

// Returns the function restricted to [begin, end).
[[nodiscard]] RankFunction restrict_function(const RankFunction& function, int64_t begin, int64_t end);
// Returns a function that is 1 where the local element at `index` is the global element `wanted`, and 2 elsewhere.
// `places`: the global elements in a rank's memory, as intervals in memory order.
struct ElementRange {
  int64_t begin = 0, end = 0;
};
[[nodiscard]] std::optional<RankFunction> compare_element(const RankFunction& index, const RankFunction& wanted,
                                                          const std::vector<ElementRange>& places);

}  // namespace tpplan
