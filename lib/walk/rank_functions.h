// Integers that differ by rank: what each rank computes, element by element, of an integer of the whole model and of
// its place in the mesh. Exact, as pieces on which they are a straight line: what code makes of token ids and of where
// a rank's rows begin.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tpplan {

// For t in [begin, end) the number slope * t + offset.
struct FunctionPiece {
  int64_t begin = 0, end = 0;
  int64_t slope = 0, offset = 0;
  bool operator==(const FunctionPiece&) const = default;
};

// Pieces in order, one behind the other: all integers, or those for which somebody asks.
using RankFunction = std::vector<FunctionPiece>;

// Integers beyond are not followed.
inline constexpr int64_t kFarInteger = int64_t{1} << 40;

[[nodiscard]] RankFunction constant_function(int64_t number);
[[nodiscard]] RankFunction same_integer();  // t itself
[[nodiscard]] std::optional<int64_t> constant_of(const RankFunction& function);

// Truths are 0 and 1. nullopt for an operation that is not followed, and where numbers go too far.
[[nodiscard]] std::optional<RankFunction> combine(std::string_view op, const RankFunction& a, const RankFunction& b);
[[nodiscard]] std::optional<RankFunction> choose(const RankFunction& condition, const RankFunction& yes,
                                                 const RankFunction& no);

// The part of [begin, end).
[[nodiscard]] RankFunction within(const RankFunction& function, int64_t begin, int64_t end);
// A function that is right (1) where the element of `places` that `index` names is the one that `wanted` says, and
// elsewhere another one (2). `places`: which elements of the whole stand in a rank's memory, as runs in order.
struct ElementRun {
  int64_t begin = 0, end = 0;
};
[[nodiscard]] std::optional<RankFunction> is_taken(const RankFunction& index, const RankFunction& wanted,
                                                   const std::vector<ElementRun>& places);

}  // namespace tpplan
