// One item of a read plan from its file into shards.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "shards/piece_sums.h"
#include "shards/plan_reads.h"
#include "shards/shard_store.h"

namespace tpplan {

// Where items are read to. `stores` by rank: nullptr for ranks that live elsewhere.
struct ReadTo {
  const Manifest* manifest = nullptr;
  const WeightSource* source = nullptr;
  std::vector<ShardStore*> stores;
  const Device* device = nullptr;
  std::function<void(uint32_t tensor)> begin;  // called before bytes of it are read into host memory, by any thread
  PieceSums* sums = nullptr;                   // of what is read; nullptr: nobody asks
};

// Calls visit(segment, target, begin, bytes) for each target of each segment of an item: the part of the segment that
// the item covers, bytes [begin, begin + bytes) of the item's lines as they stand packed in memory.
template <typename Visit>
void for_each_target(const ReadItem& item, Visit visit) {
  for (const ReadSegment& segment : item.cell->segments) {
    const uint64_t begin = segment.begin > item.begin ? segment.begin : item.begin;
    const uint64_t segment_end = segment.begin + segment.bytes, end = segment_end < item.end ? segment_end : item.end;
    if (begin >= end) continue;
    for (const ReadTarget& target : segment.targets) visit(segment, target, begin - item.begin, end - begin);
  }
}

// Bytes of an item as read_packed leaves them.
[[nodiscard]] inline uint64_t packed_bytes(const ReadItem& item) { return item.lines * (item.end - item.begin); }

// Reads an item's lines into `to`, one after the other. Throws as read_exactly does; returns the bytes read.
[[nodiscard]] uint64_t read_packed(const ReadTo& to, const ReadItem& item, void* memory);

// True when an item's segments are long enough to be read straight into shards in host memory.
[[nodiscard]] bool can_scatter(const ReadItem& item);

// Reads an item straight into the shards of host memory that want it, and copies it on where several do.
[[nodiscard]] uint64_t scatter(const ReadTo& to, const ReadItem& item);

// Copies an item's packed lines, which stand in memory of the device, into the shards that want them.
void spread(const ReadTo& to, const ReadItem& item, const void* packed);

}  // namespace tpplan
