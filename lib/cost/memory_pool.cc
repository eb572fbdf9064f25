#include "cost/memory_pool.h"

#include <algorithm>
#include <iterator>

#include "sharding/dtype.h"

namespace tpplan {
namespace {

constexpr uint64_t kGranule = 512;  // of CUDA's caching allocator, and of MemTracker

constexpr std::string_view kTensorUseNames[] = {"parameters",
                                                "master weights",
                                                "optimizer state",
                                                "gradients",
                                                "gradient buckets",
                                                "tokens",
                                                "buffers",
                                                "gathered weights",
                                                "all_gather outputs",
                                                "reduce_scatter inputs",
                                                "unreduced gradients",
                                                "saved activations",
                                                "logits and loss",
                                                "activation gradients",
                                                "optimizer temporaries"};
static_assert(std::size(kTensorUseNames) == static_cast<size_t>(TensorUse::Temporary) + 1);

constexpr std::string_view kPhaseNames[] = {"forward", "backward", "optimizer"};
static_assert(std::size(kPhaseNames) == static_cast<size_t>(StepPhase::Optimizer) + 1);

// FSDP2 allocates the outputs of all_gather and the inputs of reduce_scatter in streams of their own.
MemoryStream stream_of(TensorUse use) {
  return use == TensorUse::AllGather       ? MemoryStream::AllGather
         : use == TensorUse::ReduceScatter ? MemoryStream::ReduceScatter
                                           : MemoryStream::Compute;
}

}  // namespace

BlockId allocate(MemoryPool& pool, uint64_t bytes, TensorUse as) {
  const uint64_t rounded =
      bytes > kMostInTotal - kGranule ? kMostInTotal : (bytes + kGranule - 1) / kGranule * kGranule;
  if (rounded > kMostInTotal - pool.now) {
    pool.overflow = true;
    return kNoBlock;
  }
  BlockId id = static_cast<BlockId>(pool.blocks.size());
  if (pool.free.empty()) {
    pool.blocks.emplace_back();
  } else {
    id = pool.free.back();
    pool.free.pop_back();
  }
  pool.blocks[id] = {
      .bytes = rounded, .holders = 1, .as = as, .part = allocate(pool.allocator, rounded, stream_of(as))};
  pool.held[static_cast<size_t>(as)] += rounded;
  pool.now += rounded;
  if (pool.now > pool.span_peak) {
    pool.span_peak = pool.now;
    pool.at_span_peak = pool.held;
  }
  if (pool.now > pool.peak) {
    pool.peak = pool.now;
    pool.at_peak = pool.held;
    if (pool.place != nullptr) pool.peak_place = *pool.place;
  }
  return id;
}

BlockId hold(MemoryPool& pool, BlockId block) {
  if (block != kNoBlock) ++pool.blocks[block].holders;
  return block;
}

void release(MemoryPool& pool, BlockId block) {
  if (block == kNoBlock) return;
  Block& own = pool.blocks[block];
  if (--own.holders > 0) return;
  pool.held[static_cast<size_t>(own.as)] -= own.bytes;
  pool.now -= own.bytes;
  release(pool.allocator, own.part);
  pool.free.push_back(block);
}

std::string_view to_text(TensorUse as) { return kTensorUseNames[static_cast<size_t>(as)]; }
std::string_view to_text(StepPhase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

}  // namespace tpplan
