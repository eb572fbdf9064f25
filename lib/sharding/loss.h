// The `loss` of a plan and a manifest: how the output of the model becomes a scalar on every rank, and by which factor
// that scales gradients.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/mesh.h"

namespace tpplan {

// How values are combined: the tokens of one rank, or the gradients of many ranks.
enum class Reduction : uint8_t { Mean, Sum };
inline constexpr std::string_view kReductionNames[] = {"mean", "sum"};  // by Reduction
static_assert(std::size(kReductionNames) == static_cast<size_t>(Reduction::Sum) + 1);

// The divisor of a mean: the number of tokens on this rank, or on all ranks along `Loss::axes`.
enum class TokenCount : uint8_t { PerRank, Global };
inline constexpr std::string_view kTermCountNames[] = {"per_rank", "global"};  // by TokenCount
static_assert(std::size(kTermCountNames) == static_cast<size_t>(TokenCount::Global) + 1);

// A loss that every rank computes after the model, from its local part of one output.
struct Loss {
  int output = 0;  // index among the outputs of the model
  Reduction reduction = Reduction::Mean;
  TokenCount count = TokenCount::PerRank;  // of a mean
  std::vector<AxisId> axes;                // axes along which ranks have different tokens of one loss, in mesh order
  Reduction gradients = Reduction::Sum;    // how gradients are reduced over the data axes
  bool operator==(const Loss&) const = default;
};

[[nodiscard]] std::string_view to_text(Reduction reduction);
[[nodiscard]] std::string_view to_text(TokenCount count);
[[nodiscard]] bool is_loss_axis(const Loss& loss, AxisId axis);

// The reduced gradient of ranks with different tokens, compared with the gradient of one process with all tokens.
// MeanOfMeans: equal only if all ranks have the same number of tokens.
enum class LossScale : uint8_t { Right, TooLarge, TooSmall, MeanOfMeans };

// Compares the gradient that results if `joined` reduces the gradients of the ranks along `axis`.
[[nodiscard]] LossScale loss_scale_along(const Loss& loss, AxisId axis, Reduction joined);

// Returns text such as "mean of output 0, counted over all ranks over [dp], gradients summed".
[[nodiscard]] std::string to_text(const Loss& loss, const Mesh& mesh);

}  // namespace tpplan
