#include "exec/load/read_targets.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "diagnostics/fault.h"
#include "exec/load/load_targets.h"
#include "exec/ranks/deadline.h"
#include "exec/shards/box_sums.h"
#include "exec/shards/cast_elements.h"
#include "exec/shards/checksums.h"
#include "exec/shards/load_shards.h"
#include "exec/shards/plan_reads.h"
#include "exec/shards/read_exactly.h"
#include "exec/shards/read_ranges.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

constexpr double kSecondsALook = 0.002, kSecondsAProgress = 0.1;

// Expected checksums of the rank's shards.
struct Sums {
  ChecksumJob job;
  Checksums wanted;
};

// State of one read. Threads count down the remaining items of each tensor; the thread that reaches zero finishes the
// tensor.
struct TargetsRead {
  tpplan_load& load;
  const tpplan_load_target* targets;
  ReadTargets requested;
  std::optional<Sums> sums;
  std::vector<std::atomic<uint64_t>> left;      // remaining items, by tensor
  std::vector<std::once_flag> begun;            // by tensor: its buffer for the cast is allocated
  std::vector<std::unique_ptr<char[]>> stored;  // by tensor: its bytes before the cast, during the read
  BoxSums kept;                                 // checksums so far of the stored boxes that have one in their file
  std::atomic<uint64_t> checked{0};             // bytes that were compared with these checksums
  std::mutex mutex;                             // guards filled
  std::vector<size_t> filled;                   // filled tensors that on_tensor has not reported yet
};

void read_sums(TargetsRead& reading, const char* path) {
  Sums& sums = reading.sums.emplace();
  sums.job.manifest = &reading.load.manifest;
  sums.job.shardings_sha256 = reading.load.shardings_sha256;
  sums.job.path = path;
  sums.job.stores = {&reading.load.store, 1};
  sums.job.omitted = reading.requested.omitted;
  const std::vector<Fault> faults = read_checksums(sums.job, sums.wanted);
  if (!faults.empty()) throw Fault(faults.front());
}

uint64_t elements_of(const Shard& shard) { return shard.bytes * 8 / dtypes()[shard.layout->dtype].bits; }

// Allocates memory for the tensor in the dtype of the weights, if it is not allocated yet.
void begin_cast(TargetsRead& reading, size_t tensor) {
  std::call_once(reading.begun[tensor], [&] {
    Shard& shard = reading.load.store.shards[tensor];
    reading.stored[tensor].reset(new char[byte_size(reading.load.source.tensors[tensor].dtype, elements_of(shard))]);
    shard.data = reading.stored[tensor].get();
  });
}

void finish_cast(TargetsRead& reading, size_t tensor) {
  Shard& shard = reading.load.store.shards[tensor];
  void* target = reading.targets[reading.requested.of[tensor].front()].data;
  if (shard.bytes != 0)
    cast_elements(target, shard.layout->dtype, shard.data, reading.load.source.tensors[tensor].dtype,
                  elements_of(shard));
  reading.stored[tensor].reset();
  shard.data = target;
}

// Finishes a tensor: compares the checksums, casts it, copies it to the targets of tied names, and queues it for
// on_tensor.
void finish_tensor(TargetsRead& reading, size_t tensor) {
  const tpplan_load& load = reading.load;
  if (const std::optional<Fault> fault = compare_complete_boxes(reading.kept, load.source, tensor, reading.checked))
    throw Fault(*fault);
  if (needs_cast(load, tensor)) finish_cast(reading, tensor);
  const Shard& shard = load.store.shards[tensor];
  const std::vector<size_t>& targets = reading.requested.of[tensor];
  if (reading.sums) {
    const std::string hash = shard_hash(shard, *load.store.device);
    for (const size_t target : targets) {
      const size_t name = reading.targets[target].tensor;
      if (const std::optional<Fault> fault =
              compare_checksum(reading.sums->job, 0, name, hash, reading.sums->wanted[0][name]))
        throw Fault(*fault);
    }
  }
  for (const size_t target : targets) {
    void* data = reading.targets[target].data;
    if (data == shard.data || shard.bytes == 0) continue;
    load.store.device->copy(data, shard.data, shard.bytes);
    load.store.device->synchronize();
  }
  const std::lock_guard lock(reading.mutex);
  for (const size_t target : targets) reading.filled.push_back(reading.targets[target].tensor);
}

void report_filled(TargetsRead& reading, const tpplan_load_options& options) {
  std::vector<size_t> filled;
  {
    const std::lock_guard lock(reading.mutex);
    filled.swap(reading.filled);
  }
  for (const size_t tensor : filled) {
    if (options.on_tensor != nullptr && options.on_tensor(options.user, tensor) != 0) throw StoppedByCallback{};
  }
}

// Calls on_tensor and on_progress until the threads have finished.
void watch(TargetsRead& reading, WorkQueue& queue, uint64_t total, const tpplan_load_options& options) {
  const Clock::time_point start = Clock::now();
  double shown = 0;
  const auto show = [&] {
    if (options.on_progress != nullptr && options.on_progress(options.user, queue.done_bytes, total) != 0)
      throw StoppedByCallback{};
  };
  for (bool busy = true; busy;) {
    busy = !wait_for_work(queue, kSecondsALook);
    report_filled(reading, options);
    if (busy && seconds_since(start) < shown + kSecondsAProgress) continue;
    shown = seconds_since(start);
    show();
  }
}

ReadTo stores_of(tpplan_load& load) {
  ReadTo to{.manifest = &load.manifest, .source = &load.source, .stores = {}, .device = load.store.device, .begin = {}};
  to.stores.resize(static_cast<size_t>(device_count(load.manifest.mesh)));
  to.stores[static_cast<size_t>(load.store.rank)] = &load.store;
  return to;
}

}  // namespace

tpplan_load_result read_targets(tpplan_load& load, const tpplan_load_target* targets, size_t count,
                                const tpplan_load_options& options) {
  require_open(load);
  if (!load.has_weights) throw RequestError{"`weights` was not set in tpplan_load_open"};
  const uint64_t staging = options.staging == 0 ? LoadOptions{}.staging : options.staging;
  if (staging < kMinStaging)
    throw RequestError{
        fmt::format("staging of {} is too small: pass at least {}", human_bytes(staging), human_bytes(kMinStaging))};
  if (options.threads < 0)
    throw RequestError{fmt::format("`threads` is {}: pass 0 for the default, or a positive number", options.threads)};
  const size_t tensors = load.store.shards.size();
  TargetsRead reading{.load = load,
                      .targets = targets,
                      .requested = check_targets(load, targets, count),
                      .sums = {},
                      .left = std::vector<std::atomic<uint64_t>>(tensors),
                      .begun = std::vector<std::once_flag>(tensors),
                      .stored = std::vector<std::unique_ptr<char[]>>(tensors),
                      .kept = make_sums(load.source)};
  reject_shared_memory(load, targets, count);
  for (size_t t = 0; t < tensors; ++t) {
    if (reading.requested.of[t].empty() || !needs_cast(load, t)) continue;
    const std::string path = escape_for_terminal(load.store.shards[t].path);
    if (options.checksums != nullptr)
      throw RequestError{fmt::format("`{}` is cast: its checksum is for another dtype", path)};
    if (!load.store.device->is_host_memory)
      throw RequestError{fmt::format("`{}` is cast, which is supported only in host memory", path)};
  }
  if (options.checksums != nullptr) read_sums(reading, options.checksums);
  std::vector<bool> omitted(tensors);
  for (size_t t = 0; t < tensors; ++t) {
    omitted[t] = reading.requested.of[t].empty();
    load.store.shards[t].data = omitted[t] ? nullptr : targets[reading.requested.of[t].front()].data;
  }
  const int ranks[] = {load.store.rank};
  const ReadPlan plan = plan_reads(load.manifest, load.source, ranks, omitted);
  const ReadPace pace = choose_pace(options.threads > 0 ? options.threads : usable_processors(), staging);
  std::vector<const ReadRange*> file_ranges;
  for (const ReadRange& file_range : plan.file_ranges) {
    file_ranges.push_back(&file_range);
    reading.left[file_range.tensor] += item_count(file_range, pace.block);
  }
  // Cast tensors need an extra buffer during the read. They are read one after the other instead of in file order, so
  // that few buffers exist at once.
  std::ranges::stable_sort(file_ranges, {}, [&](const ReadRange* file_range) {
    return needs_cast(load, file_range->tensor) ? int64_t{file_range->tensor} : -1;
  });
  const RangeList list = list_items(std::move(file_ranges), pace.block);
  ReadTo to = stores_of(load);
  to.sums = &reading.kept;
  to.begin = [&](uint32_t tensor) {
    if (needs_cast(load, tensor)) begin_cast(reading, tensor);
  };
  for (size_t t = 0; t < tensors; ++t) {
    if (!omitted[t] && reading.left[t] == 0) finish_tensor(reading, t);
  }

  WorkQueue queue;
  queue.count = list.items;
  try {
    start_work(queue, static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(pace.threads), list.items)),
               [&](WorkQueue& work) {
                 load.store.device->use(load.device_number);
                 read_ranges(to, list, work, [&](const ReadItem& item) {
                   if (--reading.left[item.file_range->tensor] == 0) finish_tensor(reading, item.file_range->tensor);
                 });
               });
    watch(reading, queue, list.bytes, options);
  } catch (...) {
    stop_work(queue);
    join_work(queue);
    throw;
  }
  join_work(queue);
  if (queue.fault) throw Fault(*queue.fault);
  check_unchanged(load.source);
  return {.read_bytes = queue.done_bytes, .needed_bytes = plan.needed_bytes, .checked_bytes = reading.checked};
}

}  // namespace tpplan
