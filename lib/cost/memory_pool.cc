#include "cost/memory_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "sharding/dtype.h"

namespace tpplan {
namespace {

void flush_change(MemoryPool& pool, ShardSize size, bool frees) {
  pool.change.size = size;
  pool.change.frees = frees;
  pool.log->changes.push_back(std::exchange(pool.change, {}));
}

void log_change(MemoryPool& pool, const Block& block, bool frees) {
  if (block.size.count != kNoCount) return flush_change(pool, block.size, frees);
  pool.change.end += frees ? -static_cast<int64_t>(block.bytes) : static_cast<int64_t>(block.bytes);
  pool.change.peak = std::max(pool.change.peak, pool.change.end);
}

}  // namespace

BlockId allocate(MemoryPool& pool, uint64_t bytes, TensorUse as, ShardSize size) {
  const uint64_t rounded = allocated_bytes(bytes);
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
  pool.blocks[id] = {.bytes = rounded, .holders = 1, .as = as, .size = size};
  pool.held[static_cast<size_t>(as)] += rounded;
  pool.now += rounded;
  if (pool.log != nullptr && pool.now > pool.span_peak) {
    pool.span_peak = pool.now;
    pool.at_span_peak = pool.held;
  }
  if (pool.log != nullptr) log_change(pool, pool.blocks[id], false);
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
  Block& released = pool.blocks[block];
  if (--released.holders > 0) return;
  pool.held[static_cast<size_t>(released.as)] -= released.bytes;
  pool.now -= released.bytes;
  if (pool.log != nullptr) log_change(pool, released, true);
  pool.free.push_back(block);
}

void end_logged_span(MemoryPool& pool) {
  if (pool.log == nullptr) return;
  flush_change(pool, {}, false);
  pool.log->ends.push_back(pool.log->changes.size());
}

}  // namespace tpplan
