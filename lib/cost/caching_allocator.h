// What CUDA's caching allocator reserves for a sequence of allocations (c10/cuda/CUDACachingAllocator.cpp, torch 2.13,
// with its defaults: no expandable segments, no limit of memory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace tpplan {

using SegmentPart = uint32_t;
inline constexpr SegmentPart kNoPart = 0xffffffffu;

// Streams have separate pools.
enum class MemoryStream : uint8_t { Compute, AllGather, ReduceScatter };
inline constexpr size_t kMemoryStreams = static_cast<size_t>(MemoryStream::ReduceScatter) + 1;

// A part of a segment: allocated, or free between its neighbours.
struct AllocatorPart {
  uint64_t address = 0, size = 0;
  SegmentPart before = kNoPart, after = kNoPart;  // in the segment
  uint8_t pool = 0;
  bool is_free = false;
};

struct CachingAllocator {
  std::vector<AllocatorPart> parts;
  std::vector<SegmentPart> unused;  // ids to use again
  // Free parts by size and address, for each stream: of small and of large allocations.
  std::set<std::tuple<uint64_t, uint64_t, SegmentPart>> free[2 * kMemoryStreams];
  uint64_t reserved = 0;
};

[[nodiscard]] SegmentPart allocate(CachingAllocator& allocator, uint64_t bytes, MemoryStream stream);
void release(CachingAllocator& allocator, SegmentPart part);

}  // namespace tpplan
