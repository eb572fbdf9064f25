// The only code that decides whether a sharding is legal.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sharding/partition_spec.h"

namespace tpplan {

// The treatment of a dim whose size its axes do not divide.
enum class UnevenPolicy : uint8_t {
  Error,
  Torch,  // shards as torch.chunk returns them, axis by axis, major first; empty shards are legal
};

inline constexpr std::string_view kUnevenPolicyNames[] = {"error", "torch"};  // by UnevenPolicy
static_assert(std::size(kUnevenPolicyNames) == static_cast<size_t>(UnevenPolicy::Torch) + 1);
[[nodiscard]] std::string_view to_text(UnevenPolicy policy);

// Parses the output of to_text. Returns false for any other text.
[[nodiscard]] bool find_uneven_policy(std::string_view text, UnevenPolicy& policy);

enum class ShardingErrorKind : uint8_t {
  EntryCount,           // the spec has `found` entries, the tensor `size` dims
  UnknownAxis,          // the mesh has no such axis id
  AxisTwice,            // `axis` shards both `dim` and `other_dim`
  NotDivisible,         // size % ways != 0
  AxesNotDivisible,     // each axis divides the size, their product does not
  SegmentNotDivisible,  // a segment of `size` does not divide by `shards`
  SegmentsDoNotFit,     // the segments add up to `found`, the dim to `size`
  SplitsGranule,        // a shard boundary inside a block of `granule` elements
};

struct ShardingError {
  ShardingErrorKind kind{};
  size_t dim = 0;
  size_t other_dim = 0;
  AxisId axis = kNoAxis;
  int64_t size = 0;    // of the dim or segment
  int64_t shards = 1;  // product of the axes of the dim
  int64_t found = 0;
  int64_t granule = 1;
};

// Blocks of `granule` consecutive elements of a dim that must not be split (head_dim, quantisation block).
struct DimGranularity {
  size_t dim = 0;
  int64_t granule = 1;
};

// Returns the errors in a sharding of a tensor of this shape, at most one for each dim, in dim order. Empty: it is
// legal. Checks, in this order:
// - the spec has as many entries as the tensor has dims; every axis is an axis of the mesh and is used at most once;
// - segments add up to their dim;
// - with UnevenPolicy::Error each dim (each segment of it) divides by the product of its axes, so that one dim over two
//   axes is legal if and only if their product divides it (JAX 0.10.2, NamedSharding: size 0 passes, size 1 does not);
// - no shard boundary is inside a granule.
[[nodiscard]] std::vector<ShardingError> check_sharding(std::span<const int64_t> shape, const Sharding& sharding,
                                                        const Mesh& mesh, UnevenPolicy uneven,
                                                        std::span<const DimGranularity> granularity = {});

// True if `size` elements can be split into `shards` equal shards.
[[nodiscard]] bool divides(int64_t shards, int64_t size);

// Returns the axis sizes from 1 to `limit` that divide all of `sizes`, for help lines.
[[nodiscard]] std::vector<int64_t> common_divisors(std::span<const int64_t> sizes, int64_t limit);

}  // namespace tpplan
