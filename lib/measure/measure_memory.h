// Bytes that ranks hold: parameters, what training adds to them by a recipe, buffers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"
#include "measure/recipes.h"

namespace tpplan {

// Ranks `begin` to `end` - 1.
struct RankRun {
  int64_t begin = 0;
  int64_t end = 0;
};

// What a recipe adds to parameters.
struct TrainingBytes {
  uint64_t gradients = 0;
  uint64_t masters = 0;
  uint64_t optimizer = 0;
  friend auto operator<=>(const TrainingBytes&, const TrainingBytes&) = default;
};

// Ranks that hold as many bytes as each other. All bytes are of one rank.
struct RankMemory {
  std::vector<RankRun> ranks;  // ascending
  int64_t rank_count = 0;
  uint64_t parameters = 0;  // bytes_per_rank of the manifest
  uint64_t replicated = 0;  // part of `parameters`: of those that every rank holds whole
  TrainingBytes training;
  uint64_t buffers = 0;
  uint64_t total = 0;  // of parameters, training and buffers
};

struct MemoryMeasure {
  const Recipe* recipe = nullptr;
  // By their first rank; a single group of all ranks, as the fullest is, where the manifest does not list its ranks.
  std::vector<RankMemory> ranks;
  bool ranks_listed = true;
  RankMemory fullest;            // the group that holds the most
  TrainingBytes whole_training;  // of the whole model
  uint64_t buffer_bytes = 0;
  TrainingBytes ideal_training;  // whole_training / ranks that cut the model, rounded up
  uint64_t ideal = 0;     // of totals.ideal_bytes_per_rank, ideal_training and buffers, which are whole everywhere
  bool overflow = false;  // a sum leaves 64 bits: nothing above is to be used
};

[[nodiscard]] MemoryMeasure measure_memory(const Manifest& manifest, const Recipe& recipe);

inline constexpr size_t kMemoryParts = 6;

struct MemoryPart {
  std::string_view name;
  uint64_t bytes = 0;
};

// Parameters that are cut, those that every rank holds whole, gradients, master weights, optimizer state, buffers: the
// order in which bars stack them. @post they sum up to `total`
[[nodiscard]] std::array<MemoryPart, kMemoryParts> memory_parts(const RankMemory& memory);

// True when some rank holds bytes of this part.
[[nodiscard]] bool has_part(const MemoryMeasure& measure, size_t part);

}  // namespace tpplan
