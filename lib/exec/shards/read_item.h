// Reads one item of a read plan from its file into shards.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "exec/shards/box_sums.h"
#include "exec/shards/plan_reads.h"
#include "exec/shards/shard_store.h"

namespace tpplan {

// The targets of reads. `stores` by rank; nullptr for ranks of other processes.
struct ReadTo {
  const Manifest* manifest = nullptr;
  const WeightSource* source = nullptr;
  std::vector<ShardStore*> stores;
  const Device* device = nullptr;
  std::function<void(uint32_t tensor)>
      begin;                // called by any thread before it reads bytes of the tensor into host memory
  BoxSums* sums = nullptr;  // checksums of the bytes that are read; nullptr: not computed
};

// Calls visit(segment, target, begin, bytes) for each target of each segment of an item, for the part of the segment
// that the item covers: bytes [begin, begin + bytes) of the item's packed lines.
template <typename Visit>
void for_each_target(const ReadItem& item, Visit visit) {
  for (const ReadSegment& segment : item.file_range->segments) {
    const uint64_t begin = segment.begin > item.begin ? segment.begin : item.begin;
    const uint64_t segment_end = segment.begin + segment.bytes, end = segment_end < item.end ? segment_end : item.end;
    if (begin >= end) continue;
    for (const ReadTarget& target : segment.targets) visit(segment, target, begin - item.begin, end - begin);
  }
}

// Returns the bytes of an item in memory after read_packed.
[[nodiscard]] inline uint64_t packed_bytes(const ReadItem& item) { return item.lines * (item.end - item.begin); }

// Reads an item's lines into `memory`, one after the other. Returns the bytes read. Throws the errors of read_exactly.
[[nodiscard]] uint64_t read_packed(const ReadTo& to, const ReadItem& item, void* memory);

// True if the segments of an item are long enough to be read directly into shards in host memory.
[[nodiscard]] bool can_scatter(const ReadItem& item);

// Reads an item directly into its first target in host memory and copies it to its further targets.
[[nodiscard]] uint64_t scatter(const ReadTo& to, const ReadItem& item);

// Copies an item's packed lines, which are in device memory, into the shards that need them.
void copy_to_targets(const ReadTo& to, const ReadItem& item, const void* packed);

}  // namespace tpplan
