// Bytes that ranks hold: parameters, gradients and optimizer states of a recipe, buffers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cost/recipes.h"
#include "manifest/manifest.h"

namespace tpplan {

// Ranks `begin` to `end` - 1.
struct RankRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// The bytes that a recipe adds to the parameters.
struct TrainingBytes {
  uint64_t gradients = 0;
  uint64_t masters = 0;
  uint64_t optimizer = 0;
  friend auto operator<=>(const TrainingBytes&, const TrainingBytes&) = default;
};

// A group of ranks that hold the same number of bytes. All bytes are those of one rank.
struct RankMemory {
  std::vector<RankRange> ranks;  // ascending
  int64_t rank_count = 0;
  uint64_t parameters = 0;  // bytes_per_rank of the manifest
  uint64_t replicated = 0;  // the part of `parameters` that every rank holds in full
  TrainingBytes training;
  uint64_t buffers = 0;
  uint64_t total = 0;  // of parameters, training and buffers
};

struct MemoryMeasure {
  const Recipe* recipe = nullptr;
  // By their first rank; one group of all ranks, equal to `fullest`, if the manifest does not list its ranks.
  std::vector<RankMemory> ranks;
  bool ranks_listed = true;
  RankMemory fullest;            // the group that holds the most
  TrainingBytes total_training;  // of the whole model
  uint64_t buffer_bytes = 0;
  TrainingBytes ideal_training;  // total_training / ranks that cut the model, rounded up
  uint64_t ideal = 0;            // totals.ideal_bytes_per_rank, ideal_training and the replicated buffers
  bool overflow = false;         // a sum exceeds 64 bits: everything above is invalid
};

[[nodiscard]] MemoryMeasure measure_memory(const Manifest& manifest, const Recipe& recipe);

inline constexpr size_t kMemoryParts = 6;

struct MemoryPart {
  std::string_view name;
  uint64_t bytes = 0;
};

// Returns sharded parameters, replicated parameters, gradients, master weights, optimizer state, buffers, in the order
// of the stacked bars. @post they add up to `total`
[[nodiscard]] std::array<MemoryPart, kMemoryParts> memory_parts(const RankMemory& memory);

// True if some rank holds bytes of this part.
[[nodiscard]] bool has_part(const MemoryMeasure& measure, size_t part);

}  // namespace tpplan
