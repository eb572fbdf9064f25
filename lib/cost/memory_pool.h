// The tensors that are alive during a step, as torch's MemTracker counts them: each rounded up to 512 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cost/memory_log.h"

namespace tpplan {

// Where a step is. The names belong to the model.
struct StepPlace {
  StepPhase phase = StepPhase::Forward;
  std::string_view operation;  // of the trace, or what is done besides; empty: unknown
  std::string_view module;     // its path
};

using BlockId = uint32_t;
inline constexpr BlockId kNoBlock = 0xffffffffu;

struct Block {
  uint64_t bytes = 0;
  uint32_t holders = 0;
  TensorUse as = TensorUse::Saved;
  ShardSize size;
};

struct MemoryPool {
  std::vector<Block> blocks;
  std::vector<BlockId> free;  // ids to use again
  BytesByUse held{}, at_peak{};
  uint64_t now = 0, peak = 0;
  uint64_t span_peak = 0;    // since the caller has last set it
  MemoryLog* log = nullptr;  // nullptr: not requested
  LoggedChange change;       // that has not been logged yet
  BytesByUse at_span_peak{};
  const StepPlace* place = nullptr;  // now
  StepPlace peak_place;
  bool overflow = false;  // a sum exceeds 63 bits
};

// Returns a new tensor with one holder. `size` is given if it changes with the data axes.
[[nodiscard]] BlockId allocate(MemoryPool& pool, uint64_t bytes, TensorUse as, ShardSize size = {});
// Adds a holder. kNoBlock has none.
[[nodiscard]] BlockId hold(MemoryPool& pool, BlockId block);
// Removes a holder. A tensor without holders is freed.
void release(MemoryPool& pool, BlockId block);

// Ends a span of the log.
void end_logged_span(MemoryPool& pool);

}  // namespace tpplan
