#include "shards/load_shards.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/text.h"
#include "ranks/deadline.h"
#include "ranks/memory_sharers.h"
#include "shards/broadcast_reads.h"
#include "shards/exchange_reads.h"
#include "shards/plan_reads.h"
#include "shards/read_cells.h"
#include "shards/read_exactly.h"
#include "shards/read_item.h"
#include "shards/work_queue.h"
#include "shards/work_together.h"

namespace tpplan {
namespace {

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
  uint64_t own_bytes = 0, own_needed = 0;
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

// The cells of a rank's own plan: what it alone holds, and what others hold alike, tensor by tensor.
DealtCells deal_alike(const Comm& comm, const Manifest& manifest, const ReadPlan& plan) {
  DealtCells dealt;
  for (const ReadCell& cell : plan.cells) {
    const ParamLayout& layout = layout_of(manifest, tensor_of(manifest, cell.tensor));
    const bool is_alone = ranks_alike(layout, manifest.mesh, comm.rank).size() == 1;
    (is_alone ? dealt.own : dealt.shared).push_back(&cell);
    if (!is_alone) continue;
    dealt.own_bytes += bytes_of(cell);
    const uint64_t lines = bytes_of(cell) / cell.line_bytes;
    for (const ReadSegment& segment : cell.segments)
      dealt.own_needed += segment.targets.empty() ? 0 : segment.bytes * lines;
  }
  std::ranges::stable_sort(dealt.shared, {}, &ReadCell::tensor);
  return dealt;
}

// The ranks that read each byte once between them.
Group readers_of(const Comm& comm, bool alone, bool broadcast) {
  std::vector<int> ranks = alone ? std::vector{comm.rank} : comm.node;
  if (broadcast) {
    ranks.resize(static_cast<size_t>(comm.world));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  Group group{.ranks = std::move(ranks)};
  group.self = static_cast<size_t>(std::ranges::find(group.ranks, comm.rank) - group.ranks.begin());
  return group;
}

}  // namespace

// The processors shared out among the node's processes: this one with all its ranks, and one for each other rank.
int reading_threads(const Comm& comm, int asked) {
  if (asked > 0) return asked;
  return std::max(1,
                  own_processors() / static_cast<int>(std::max<size_t>(1, comm.node.size() - comm.process.size() + 1)));
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
  const bool alone = comm.process.size() == static_cast<size_t>(comm.world), broadcast = options.broadcast && !alone;
  ReadPlan plan;
  PieceSums sums;
  ReadTo to{
      .source = &source, .stores = std::vector<ShardStore*>(static_cast<size_t>(comm.world)), .device = comm.device};
  for (ShardStore& store : stores) to.stores[static_cast<size_t>(store.rank)] = &store;
  const auto make_plan = [&] {
    to.manifest = stores.front().manifest;
    plan = plan_reads(*to.manifest, source, alone ? comm.process : broadcast ? std::vector{comm.rank} : comm.node);
    sums = make_sums(source);
    to.sums = &sums;
  };
  work_together(comm, "load: planning the reads", stores.empty() ? std::function<void()>() : make_plan);

  DealtCells dealt = broadcast ? deal_alike(comm, *to.manifest, plan) : deal_cells(comm, plan, alone);
  const ReadPace pace = pace_of(reading_threads(comm, options.threads), options.staging);
  const CellList list = list_items(std::move(dealt.own), pace.block);

  WorkQueue queue;
  queue.count = list.items;
  begin_step(comm, "load: reading shards");
  start_work(queue, stores.empty() ? 0 : pace.threads, [&](WorkQueue& work) {
    use_device(comm);
    read_cells(to, list, work);
  });
  finish_together(comm, queue, {.title = "loading", .total_bytes = dealt.own_bytes, .kind = options.progress});

  LoadResult result{.needed_bytes = plan.needed_bytes, .read_bytes = queue.done_bytes};
  if (broadcast) {
    const BroadcastResult shared = broadcast_reads(comm, to, dealt.shared, options.staging, options.progress);
    result.read_bytes += shared.read_bytes;
    result.needed_bytes = dealt.own_needed + shared.needed_bytes;
    result.is_broadcast = true;
  } else if (!alone) {
    result.read_bytes += exchange_reads(comm, to, dealt.shared, options.staging, options.progress);
  }
  if (!stores.empty()) check_unchanged(source);
  if (has_sums(source)) {
    begin_step(comm, "load: comparing checksums");
    const SumsEnd end = compare_sums(comm, readers_of(comm, alone, broadcast), sums, source);
    result.checked_bytes = end.checked_bytes;
    work_together(comm, "load: agreeing on checksums", [&] {
      if (end.fault) throw Fault(*end.fault);
    });
  }
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace tpplan
