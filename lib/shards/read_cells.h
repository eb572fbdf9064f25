// The threads' part of reading: cells of a plan, item by item, from their files into shards.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shards/plan_reads.h"
#include "shards/read_item.h"
#include "shards/work_queue.h"

namespace tpplan {

// Cells in file order, and where the items of each begin to count.
struct CellList {
  std::vector<const ReadCell*> cells;
  std::vector<uint64_t> first_item;
  uint64_t items = 0, bytes = 0;
  uint64_t block = 0;  // bytes of an item at most
};

// Processors that this process may use.
[[nodiscard]] int own_processors();

// How many threads read, and how much each at once, so that they take no more than `staging` bytes beside the shards.
struct ReadPace {
  int threads = 1;
  uint64_t block = 0;
};
[[nodiscard]] ReadPace pace_of(int threads, uint64_t staging);

[[nodiscard]] CellList list_items(std::vector<const ReadCell*> cells, uint64_t block);

// What one thread does: reads items that the queue deals out, and calls `done` once the bytes of one stand where they
// belong. Throws as read_exactly does; TP8012 where there is no memory for staging.
using ItemDone = std::function<void(const ReadItem& item)>;
void read_cells(const ReadTo& to, const CellList& list, WorkQueue& queue, const ItemDone& done = {});

}  // namespace tpplan
