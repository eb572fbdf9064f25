#include "cost/caching_allocator.h"

#include <algorithm>

namespace tpplan {
namespace {

// The constants of c10/cuda/CUDACachingAllocator.
constexpr uint64_t kMinBlock = 512;
constexpr uint64_t kSmallSize = uint64_t{1} << 20;      // the largest small allocation
constexpr uint64_t kSmallSegment = uint64_t{2} << 20;   // of small allocations
constexpr uint64_t kLargeSegment = uint64_t{20} << 20;  // of large allocations below kMinLargeSegment
constexpr uint64_t kMinLargeSize = uint64_t{10} << 20;  // from here on an allocation has a segment of its own size
constexpr uint64_t kRoundLarge = uint64_t{2} << 20;

uint64_t rounded(uint64_t bytes, uint64_t step) { return (bytes + step - 1) / step * step; }

uint64_t segment_size(uint64_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  return size < kMinLargeSize ? kLargeSegment : rounded(size, kRoundLarge);
}

bool is_small_pool(const AllocatorPart& part) { return part.pool % 2 == 0; }

SegmentPart new_part(CachingAllocator& a, const AllocatorPart& part) {
  if (a.unused.empty()) {
    a.parts.push_back(part);
    return static_cast<SegmentPart>(a.parts.size() - 1);
  }
  const SegmentPart id = a.unused.back();
  a.unused.pop_back();
  a.parts[id] = part;
  return id;
}

void set_free(CachingAllocator& a, SegmentPart id) {
  AllocatorPart& part = a.parts[id];
  part.is_free = true;
  a.free[part.pool].emplace(part.size, part.address, id);
}

void take(CachingAllocator& a, SegmentPart id) {
  AllocatorPart& part = a.parts[id];
  part.is_free = false;
  a.free[part.pool].erase({part.size, part.address, id});
}

// Frees the rest of a part that is larger than needed.
void split(CachingAllocator& a, SegmentPart id, uint64_t size) {
  const uint64_t rest = a.parts[id].size - size;
  if (is_small_pool(a.parts[id]) ? rest < kMinBlock : rest <= kSmallSize) return;
  const AllocatorPart made{.address = a.parts[id].address + size,
                           .size = rest,
                           .before = id,
                           .after = a.parts[id].after,
                           .pool = a.parts[id].pool,
                           .is_free = false};
  const SegmentPart other = new_part(a, made);
  if (made.after != kNoPart) a.parts[made.after].before = other;
  a.parts[id].after = other;
  a.parts[id].size = size;
  set_free(a, other);
}

// Joins a part with the free one after it.
void join_next(CachingAllocator& a, SegmentPart id) {
  const SegmentPart next = a.parts[id].after;
  if (next == kNoPart || !a.parts[next].is_free) return;
  take(a, next);
  a.parts[id].size += a.parts[next].size;
  a.parts[id].after = a.parts[next].after;
  if (a.parts[id].after != kNoPart) a.parts[a.parts[id].after].before = id;
  a.unused.push_back(next);
}

}  // namespace

SegmentPart allocate(CachingAllocator& a, uint64_t bytes, MemoryStream stream) {
  const uint64_t size = rounded(std::max<uint64_t>(bytes, 1), kMinBlock);
  const auto pool = static_cast<uint8_t>(2 * static_cast<uint8_t>(stream) + (size > kSmallSize ? 1 : 0));
  SegmentPart id = kNoPart;
  const auto best = a.free[pool].lower_bound({size, 0, 0});
  if (best != a.free[pool].end()) {
    id = std::get<2>(*best);
    take(a, id);
  } else {
    const uint64_t segment = segment_size(size);
    id = new_part(a, {.address = a.reserved, .size = segment, .pool = pool});
    a.reserved += segment;
  }
  split(a, id, size);
  return id;
}

void release(CachingAllocator& a, SegmentPart id) {
  if (id == kNoPart) return;
  join_next(a, id);
  const SegmentPart before = a.parts[id].before;
  if (before != kNoPart && a.parts[before].is_free) {
    take(a, before);
    a.parts[id].is_free = true;
    a.free[a.parts[id].pool].emplace(a.parts[id].size, a.parts[id].address, id);
    join_next(a, before);
    id = before;
  }
  set_free(a, id);
}

}  // namespace tpplan
