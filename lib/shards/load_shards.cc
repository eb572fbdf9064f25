#include "shards/load_shards.h"

#include <sched.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "base/text.h"
#include "ranks/deadline.h"
#include "ranks/memory_sharers.h"
#include "shards/exchange_reads.h"
#include "shards/plan_reads.h"
#include "shards/read_exactly.h"
#include "shards/read_item.h"
#include "shards/work_queue.h"
#include "shards/work_together.h"

namespace tpplan {
namespace {

constexpr uint64_t kMinRead = uint64_t{64} << 10, kMaxRead = uint64_t{2} << 20;

// Cells in file order, and where the items of each begin to count.
struct CellList {
  std::vector<const ReadCell*> cells;
  std::vector<uint64_t> first_item;
  uint64_t items = 0, bytes = 0;
};

CellList list_items(std::vector<const ReadCell*> cells, uint64_t block) {
  CellList list{.cells = std::move(cells)};
  for (const ReadCell* cell : list.cells) {
    list.first_item.push_back(list.items);
    list.items += item_count(*cell, block);
  }
  return list;
}

ReadItem item_number(const CellList& list, uint64_t block, uint64_t number) {
  const size_t at =
      static_cast<size_t>(std::ranges::upper_bound(list.first_item, number) - list.first_item.begin()) - 1;
  return item_of(*list.cells[at], block, number - list.first_item[at]);
}

// Reads towards a GPU: two blocks of pinned memory, so that one is read while the other is copied.
void read_through_staging(const ReadTo& to, const CellList& list, uint64_t block, WorkQueue& queue) {
  const Device& device = *to.device;
  const auto release_staging = [&](void* memory) { device.release_staging(memory); };
  const auto release = [&](void* memory) { device.release(memory); };
  std::unique_ptr<void, decltype(release_staging)> host(device.allocate_staging(2 * block), release_staging);
  std::unique_ptr<void, decltype(release)> scratch(device.allocate(2 * block), release);
  if (host == nullptr || scratch == nullptr)
    throw Fault{.code = Code::TP8012,
                .message = fmt::format("no memory is left for {} of staging", human_bytes(2 * block))};
  uint64_t half = 0;
  for (uint64_t number = 0; take_work(queue, number); half = block - half) {
    const ReadItem item = item_number(list, block, number);
    char* read = static_cast<char*>(host.get()) + half;
    char* there = static_cast<char*>(scratch.get()) + half;
    const uint64_t bytes = read_packed(to, item, read);
    device.synchronize();  // the copies of the other half, which ran meanwhile
    device.from_host(there, read, bytes);
    spread(to, item, there);
    queue.done_bytes += bytes;
  }
  device.synchronize();
}

void read_on_host(const ReadTo& to, const CellList& list, uint64_t block, WorkQueue& queue) {
  std::vector<char> staging;
  for (uint64_t number = 0; take_work(queue, number);) {
    const ReadItem item = item_number(list, block, number);
    if (can_scatter(item)) {
      queue.done_bytes += scatter(to, item);
      continue;
    }
    staging.resize(std::max(staging.size(), packed_bytes(item)));
    queue.done_bytes += read_packed(to, item, staging.data());
    spread(to, item, staging.data());
  }
}

// Whether more than one rank wants some of it. Such bytes are read once on a node, and exchanged.
bool is_shared(const ReadCell& cell) {
  const int rank = cell.segments.front().targets.front().rank;
  return std::ranges::any_of(cell.segments, [rank](const ReadSegment& segment) {
    return std::ranges::any_of(segment.targets, [rank](const ReadTarget& target) { return target.rank != rank; });
  });
}

// The cells of a plan as their readers have them: what is this process's alone, and what the ranks of the node deal
// out.
struct DealtCells {
  std::vector<const ReadCell*> own, shared;
  uint64_t own_bytes = 0;
};

DealtCells deal_cells(const Comm& comm, const ReadPlan& plan, bool alone) {
  DealtCells dealt;
  for (const ReadCell& cell : plan.cells) {
    if (!alone && is_shared(cell))
      dealt.shared.push_back(&cell);
    else if (alone || cell.segments.front().targets.front().rank == comm.rank)
      dealt.own.push_back(&cell);
  }
  for (const ReadCell* cell : dealt.own) dealt.own_bytes += bytes_of(*cell);
  return dealt;
}

}  // namespace

// The processors shared out among the node's processes: this one with all its ranks, and one for each other rank.
int reading_threads(const Comm& comm, int asked) {
  if (asked > 0) return asked;
  cpu_set_t set;
  const int processors = sched_getaffinity(0, sizeof set, &set) == 0
                             ? CPU_COUNT(&set)
                             : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, processors / static_cast<int>(std::max<size_t>(1, comm.node.size() - comm.process.size() + 1)));
}

int working_threads(const Comm& comm, int asked) {
  return comm.device->is_host_memory ? reading_threads(comm, asked) : 1;
}

LoadResult load_shards(Comm& comm, const WeightSource& source, std::span<ShardStore> stores,
                       const LoadOptions& options) {
  const Clock::time_point start = Clock::now();
  if (options.staging < kMinStaging)
    throw Fault{.code = Code::TP8012,
                .message = fmt::format("--staging {} is too little", human_bytes(options.staging)),
                .help = fmt::format("give at least {}", human_bytes(kMinStaging))};
  const bool alone = comm.process.size() == static_cast<size_t>(comm.world);
  ReadPlan plan;
  ReadTo to{
      .source = &source, .stores = std::vector<ShardStore*>(static_cast<size_t>(comm.world)), .device = comm.device};
  for (ShardStore& store : stores) to.stores[static_cast<size_t>(store.rank)] = &store;
  const auto make_plan = [&] {
    to.manifest = stores.front().manifest;
    plan = plan_reads(*to.manifest, source, alone ? comm.process : comm.node);
  };
  work_together(comm, "load: planning the reads", stores.empty() ? std::function<void()>() : make_plan);

  DealtCells dealt = deal_cells(comm, plan, alone);
  const int most = static_cast<int>(options.staging / (2 * kMinRead));
  const int threads = std::clamp(reading_threads(comm, options.threads), 1, std::max(1, most));
  const uint64_t block = std::clamp(options.staging / (2 * static_cast<uint64_t>(threads)), kMinRead, kMaxRead);
  const CellList list = list_items(std::move(dealt.own), block);

  WorkQueue queue;
  queue.count = list.items;
  begin_step(comm, "load: reading shards");
  start_work(queue, stores.empty() ? 0 : threads, [&](WorkQueue& work) {
    use_device(comm);
    comm.device->is_host_memory ? read_on_host(to, list, block, work) : read_through_staging(to, list, block, work);
  });
  finish_together(comm, queue, {.title = "loading", .total_bytes = dealt.own_bytes, .kind = options.progress});

  LoadResult result{.needed_bytes = plan.needed_bytes, .read_bytes = queue.done_bytes};
  if (!alone) result.read_bytes += exchange_reads(comm, to, dealt.shared, options.staging, options.progress);
  if (!stores.empty()) check_unchanged(source);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace tpplan
