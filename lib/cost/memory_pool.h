// The tensors that are alive during a step, as torch's MemTracker counts them: each rounded up to 512 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cost/caching_allocator.h"

namespace tpplan {

// What a tensor is.
enum class TensorUse : uint8_t {
  Parameters,  // of the rank
  Master,      // float32 copies of the parameters
  Optimizer,   // states
  Gradients,   // of the rank: shards under FSDP
  Buckets,     // flat buckets of DDP
  Inputs,      // tokens and targets
  Buffers,
  Gathered,       // weights that FSDP gathers
  AllGather,      // outputs of all_gather that are copied to gathered weights
  ReduceScatter,  // inputs of reduce_scatter and results in its dtype
  FullGradients,  // of gathered weights, before they are reduced
  Saved,          // made in the forward pass, or again in the backward pass
  Loss,           // logits, and what the loss computes from them
  Transient,      // gradients of activations
  Temporary       // of the optimizer
};
inline constexpr size_t kTensorUses = static_cast<size_t>(TensorUse::Temporary) + 1;

enum class StepPhase : uint8_t { Forward, Backward, Optimizer };

// Where a step is.
struct StepPlace {
  StepPhase phase = StepPhase::Forward;
  std::string operation;  // of the trace, or what is done besides; empty: unknown
  std::string module;     // its path
};

using BlockId = uint32_t;
inline constexpr BlockId kNoBlock = 0xffffffffu;

struct Block {
  uint64_t bytes = 0;
  uint32_t holders = 0;
  TensorUse as = TensorUse::Saved;
  SegmentPart part = kNoPart;  // of the allocator
};

using BytesByUse = std::array<uint64_t, kTensorUses>;

struct MemoryPool {
  std::vector<Block> blocks;
  std::vector<BlockId> free;  // ids to use again
  CachingAllocator allocator;
  BytesByUse held{}, at_peak{};
  uint64_t now = 0, peak = 0;
  uint64_t span_peak = 0;  // since the caller has last set it
  BytesByUse at_span_peak{};
  const StepPlace* place = nullptr;  // now
  StepPlace peak_place;
  bool overflow = false;  // a sum exceeds 63 bits
};

// Returns a new tensor with one holder.
[[nodiscard]] BlockId allocate(MemoryPool& pool, uint64_t bytes, TensorUse as);
// Adds a holder. kNoBlock has none.
[[nodiscard]] BlockId hold(MemoryPool& pool, BlockId block);
// Removes a holder. A tensor without holders is freed.
void release(MemoryPool& pool, BlockId block);

// A part of the step: a layer's forward or backward pass, or what is between layers.
struct ReplaySpan {
  StepPhase phase = StepPhase::Forward;
  int64_t layer = -1;          // number in its stack; -1: outside of layers
  uint64_t peak = 0, end = 0;  // bytes
  BytesByUse at_peak{};        // sums to `peak`
};

[[nodiscard]] std::string_view to_text(TensorUse as);
[[nodiscard]] std::string_view to_text(StepPhase phase);

}  // namespace tpplan
