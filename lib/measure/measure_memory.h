// Bytes that ranks hold: parameters, optimizer state, buffers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"
#include "measure/optimizers.h"

namespace tpplan {

// Ranks `begin` to `end` - 1.
struct RankRun {
  int64_t begin = 0;
  int64_t end = 0;
};

// Ranks that hold as many bytes as each other. All bytes are of one rank.
struct RankMemory {
  std::vector<RankRun> ranks;  // ascending
  int64_t rank_count = 0;
  uint64_t parameters = 0;  // bytes_per_rank of the manifest
  uint64_t replicated = 0;  // part of `parameters`: of those that every rank holds whole
  uint64_t optimizer = 0;
  uint64_t buffers = 0;
  uint64_t total = 0;  // parameters + optimizer + buffers
};

struct MemoryMeasure {
  const Optimizer* optimizer = nullptr;
  // By their first rank; a single group of all ranks, as the fullest is, where the manifest does not list its ranks.
  std::vector<RankMemory> ranks;
  bool ranks_listed = true;
  RankMemory fullest;            // the group that holds the most
  uint64_t optimizer_bytes = 0;  // of the whole model
  uint64_t buffer_bytes = 0;
  uint64_t ideal_optimizer = 0;  // optimizer_bytes / ranks, rounded up
  uint64_t ideal = 0;            // totals.ideal_bytes_per_rank + ideal_optimizer + buffers, which are whole everywhere
  bool overflow = false;         // a sum leaves 64 bits: nothing above is to be used
};

[[nodiscard]] MemoryMeasure measure_memory(const Manifest& manifest, const Optimizer& optimizer);

inline constexpr size_t kMemoryParts = 4;

struct MemoryPart {
  std::string_view name;
  uint64_t bytes = 0;
};

// Parameters that are cut, those that every rank holds whole, optimizer state, buffers: the order in which bars stack
// them. @post they sum up to `total`
[[nodiscard]] std::array<MemoryPart, kMemoryParts> memory_parts(const RankMemory& memory);

// True when some rank holds bytes of this part.
[[nodiscard]] bool has_part(const MemoryMeasure& measure, size_t part);

}  // namespace tpplan
