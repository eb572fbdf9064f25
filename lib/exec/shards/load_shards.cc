#include "exec/shards/load_shards.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/text.h"
#include "exec/ranks/deadline.h"
#include "exec/ranks/ranks_sharing_memory.h"
#include "exec/shards/broadcast_reads.h"
#include "exec/shards/exchange_reads.h"
#include "exec/shards/plan_reads.h"
#include "exec/shards/read_exactly.h"
#include "exec/shards/read_item.h"
#include "exec/shards/read_ranges.h"
#include "exec/shards/work_queue.h"
#include "exec/shards/work_together.h"

namespace tpplan {
namespace {

// True if more than one rank needs some of the range. Such bytes are read once on a node and exchanged.
bool is_shared(const ReadRange& file_range) {
  const int rank = file_range.segments.front().targets.front().rank;
  return std::ranges::any_of(file_range.segments, [rank](const ReadSegment& segment) {
    return std::ranges::any_of(segment.targets, [rank](const ReadTarget& target) { return target.rank != rank; });
  });
}

// The file ranges of a plan: those that only this process needs, and those that the ranks of the node share.
struct SplitReads {
  std::vector<const ReadRange*> own, shared;
  uint64_t local_bytes = 0, local_needed = 0;
};

SplitReads distribute_reads(const Comm& comm, const ReadPlan& plan, bool is_alone) {
  SplitReads split;
  for (const ReadRange& file_range : plan.file_ranges) {
    if (!is_alone && is_shared(file_range))
      split.shared.push_back(&file_range);
    else if (is_alone || file_range.segments.front().targets.front().rank == comm.rank)
      split.own.push_back(&file_range);
  }
  for (const ReadRange* file_range : split.own) split.local_bytes += bytes_of(*file_range);
  return split;
}

// Splits the file ranges of a rank, tensor by tensor: `own` ranges are held by this rank only, `shared` ones are
// replicated on other ranks.
SplitReads split_reads(const Comm& comm, const Manifest& manifest, const ReadPlan& plan) {
  SplitReads split;
  for (const ReadRange& file_range : plan.file_ranges) {
    const ParamLayout& layout = layout_of(manifest, tensor_of(manifest, file_range.tensor));
    const bool is_alone = replica_ranks(layout, manifest.mesh, comm.rank).size() == 1;
    (is_alone ? split.own : split.shared).push_back(&file_range);
    if (!is_alone) continue;
    split.local_bytes += bytes_of(file_range);
    const uint64_t lines = bytes_of(file_range) / file_range.line_bytes;
    for (const ReadSegment& segment : file_range.segments)
      split.local_needed += segment.targets.empty() ? 0 : segment.bytes * lines;
  }
  std::ranges::stable_sort(split.shared, {}, &ReadRange::tensor);
  return split;
}

// Returns the group of ranks that together read each byte once.
Group readers_of(const Comm& comm, bool is_alone, bool broadcast) {
  std::vector<int> ranks = is_alone ? std::vector{comm.rank} : comm.node;
  if (broadcast) {
    ranks.resize(static_cast<size_t>(comm.world));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  Group group{.ranks = std::move(ranks)};
  group.self = static_cast<size_t>(std::ranges::find(group.ranks, comm.rank) - group.ranks.begin());
  return group;
}

// Divides the processors among the node's processes: this one with all its ranks, and one for each other rank.
int reading_threads(const Comm& comm, int requested) {
  if (requested > 0) return requested;
  return std::max(
      1, usable_processors() / static_cast<int>(std::max<size_t>(1, comm.node.size() - comm.process.size() + 1)));
}

}  // namespace

int working_threads(const Comm& comm, int requested) {
  return comm.device->is_host_memory ? reading_threads(comm, requested) : 1;
}

LoadResult load_shards(Comm& comm, const WeightSource& source, std::span<ShardStore> stores,
                       const LoadOptions& options) {
  const Clock::time_point start = Clock::now();
  if (options.staging < kMinStaging)
    throw Fault{.code = Code::OutOfMemory,
                .message = fmt::format("--staging {} is too small", human_bytes(options.staging)),
                .help = fmt::format("pass at least {}", human_bytes(kMinStaging))};
  const bool is_alone = comm.process.size() == static_cast<size_t>(comm.world),
             broadcast = options.broadcast && !is_alone;
  ReadPlan plan;
  BoxSums sums;
  ReadTo to{
      .source = &source, .stores = std::vector<ShardStore*>(static_cast<size_t>(comm.world)), .device = comm.device};
  for (ShardStore& store : stores) to.stores[static_cast<size_t>(store.rank)] = &store;
  const auto make_plan = [&] {
    to.manifest = stores.front().manifest;
    plan = plan_reads(*to.manifest, source, is_alone ? comm.process : broadcast ? std::vector{comm.rank} : comm.node);
    sums = make_sums(source);
    to.sums = &sums;
  };
  work_together(comm, "load: planning the reads", stores.empty() ? std::function<void()>() : make_plan);

  SplitReads split = broadcast ? split_reads(comm, *to.manifest, plan) : distribute_reads(comm, plan, is_alone);
  const ReadPace pace = choose_pace(reading_threads(comm, options.threads), options.staging);
  const RangeList list = list_items(std::move(split.own), pace.block);

  WorkQueue queue;
  queue.count = list.items;
  begin_step(comm, "load: reading shards");
  start_work(queue, stores.empty() ? 0 : pace.threads, [&](WorkQueue& work) {
    use_device(comm);
    read_ranges(to, list, work);
  });
  finish_together(comm, queue, {.title = "loading", .total_bytes = split.local_bytes, .kind = options.progress});

  LoadResult result{.needed_bytes = plan.needed_bytes, .read_bytes = queue.done_bytes};
  if (broadcast) {
    const BroadcastResult shared = broadcast_reads(comm, to, split.shared, options.staging, options.progress);
    result.read_bytes += shared.read_bytes;
    result.needed_bytes = split.local_needed + shared.needed_bytes;
    result.is_broadcast = true;
  } else if (!is_alone) {
    result.read_bytes += exchange_reads(comm, to, split.shared, options.staging, options.progress);
  }
  if (!stores.empty()) check_unchanged(source);
  if (has_sums(source)) {
    begin_step(comm, "load: comparing checksums");
    const SumsResult end = compare_sums(comm, readers_of(comm, is_alone, broadcast), sums, source);
    result.checked_bytes = end.checked_bytes;
    work_together(comm, "load: agreeing on checksums", [&] {
      if (end.fault) throw Fault(*end.fault);
    });
  }
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace tpplan
