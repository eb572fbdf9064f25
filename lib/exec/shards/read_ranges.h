// The work of reading threads: the file ranges of a plan, item by item, from their files into shards.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "exec/shards/plan_reads.h"
#include "exec/shards/read_item.h"
#include "exec/shards/work_queue.h"

namespace tpplan {

// File ranges in file order, with the index of the first item of each.
struct RangeList {
  std::vector<const ReadRange*> file_ranges;
  std::vector<uint64_t> first_item;
  uint64_t items = 0, bytes = 0;
  uint64_t block = 0;  // maximum bytes of an item
};

// Returns the number of processors that this process can use.
[[nodiscard]] int usable_processors();

// The number of reading threads and the bytes of each read, so that their buffers take at most `staging` bytes.
struct ReadPace {
  int threads = 1;
  uint64_t block = 0;
};
[[nodiscard]] ReadPace choose_pace(int threads, uint64_t staging);

[[nodiscard]] RangeList list_items(std::vector<const ReadRange*> file_ranges, uint64_t block);

// The work of one thread: reads items from the queue and calls `done` when the bytes of an item are in the shards.
// Throws the errors of read_exactly; TP8012 if there is no memory for buffers.
using ItemDone = std::function<void(const ReadItem& item)>;
void read_ranges(const ReadTo& to, const RangeList& list, WorkQueue& queue, const ItemDone& done = {});

}  // namespace tpplan
