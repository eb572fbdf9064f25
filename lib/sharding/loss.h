// How a model's result becomes one number on every rank, and what that makes of gradients: the words of a plan's and a
// manifest's `loss`, and their arithmetic.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/mesh.h"

namespace tpplan {

// What is done with many terms: of one rank (tokens), or of many ranks (gradients).
enum class Reduction : uint8_t { Mean, Sum };
inline constexpr std::string_view kReductionNames[] = {"mean", "sum"};  // by Reduction
static_assert(std::size(kReductionNames) == static_cast<size_t>(Reduction::Sum) + 1);

// What a mean divides by: the terms that the rank has itself, or those of all ranks along `Loss::axes`.
enum class TermCount : uint8_t { PerRank, Global };
inline constexpr std::string_view kTermCountNames[] = {"per_rank", "global"};  // by TermCount
static_assert(std::size(kTermCountNames) == static_cast<size_t>(TermCount::Global) + 1);

// The loss is computed behind the model, by every rank from what it has of one result.
struct Loss {
  int output = 0;  // which of the model's results
  Reduction reduction = Reduction::Mean;
  TermCount count = TermCount::PerRank;  // of a mean
  std::vector<AxisId> axes;              // along which ranks have terms of their own of one loss, in mesh order
  Reduction gradients = Reduction::Sum;  // what becomes of gradients over data axes: summed, or averaged
  bool operator==(const Loss&) const = default;
};

[[nodiscard]] std::string_view to_text(Reduction reduction);
[[nodiscard]] std::string_view to_text(TermCount count);
[[nodiscard]] bool is_along(const Loss& loss, AxisId axis);

// A gradient once ranks along an axis, each with terms of its own, have joined theirs, beside that of one process with
// all terms. MeanOfMeans: the same where all ranks count as many terms, and another where they do not.
enum class LossScale : uint8_t { Right, TooLarge, TooSmall, MeanOfMeans };

// `joined`: what is done with their gradients.
[[nodiscard]] LossScale scale_along(const Loss& loss, AxisId axis, Reduction joined);

// "mean of output 0, counted over all ranks over [dp], gradients summed".
[[nodiscard]] std::string to_text(const Loss& loss, const Mesh& mesh);

}  // namespace tpplan
