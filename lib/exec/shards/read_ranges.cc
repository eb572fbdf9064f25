#include "exec/shards/read_ranges.h"

#include <sched.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "base/text.h"
#include "diagnostics/fault.h"

namespace tpplan {
namespace {

constexpr uint64_t kMinRead = uint64_t{64} << 10, kMaxRead = uint64_t{2} << 20;

ReadItem item_number(const RangeList& list, uint64_t number) {
  const size_t at =
      static_cast<size_t>(std::ranges::upper_bound(list.first_item, number) - list.first_item.begin()) - 1;
  return item_at(*list.file_ranges[at], list.block, number - list.first_item[at]);
}

// Reads for a GPU: two buffers of pinned memory, one is read into while the other is copied.
void read_through_staging(const ReadTo& to, const RangeList& list, WorkQueue& queue, const ItemDone& done) {
  const Device& device = *to.device;
  const uint64_t block = list.block;
  const auto release_staging = [&](void* memory) { device.release_staging(memory); };
  const auto release = [&](void* memory) { device.release(memory); };
  std::unique_ptr<void, decltype(release_staging)> host(device.allocate_staging(2 * block), release_staging);
  std::unique_ptr<void, decltype(release)> scratch(device.allocate(2 * block), release);
  if (host == nullptr || scratch == nullptr)
    throw Fault{.code = Code::OutOfMemory,
                .message = fmt::format("cannot allocate {} of staging memory", human_bytes(2 * block))};
  std::optional<ReadItem> before;  // whose copies may still run
  const auto finish_copies = [&] {
    device.synchronize();
    if (before && done) done(*before);
  };
  uint64_t half = 0;
  for (uint64_t number = 0; take_work(queue, number); half = block - half) {
    const ReadItem item = item_number(list, number);
    char* read = static_cast<char*>(host.get()) + half;
    char* there = static_cast<char*>(scratch.get()) + half;
    const uint64_t bytes = read_packed(to, item, read);
    finish_copies();  // the copies of the other half, which ran meanwhile
    device.from_host(there, read, bytes);
    copy_to_targets(to, item, there);
    before = item;
    queue.done_bytes += bytes;
  }
  finish_copies();
}

void read_on_host(const ReadTo& to, const RangeList& list, WorkQueue& queue, const ItemDone& done) {
  std::vector<char> staging;
  for (uint64_t number = 0; take_work(queue, number);) {
    const ReadItem item = item_number(list, number);
    if (to.begin) to.begin(item.file_range->tensor);
    if (can_scatter(item)) {
      queue.done_bytes += scatter(to, item);
    } else {
      staging.resize(std::max(staging.size(), packed_bytes(item)));
      queue.done_bytes += read_packed(to, item, staging.data());
      copy_to_targets(to, item, staging.data());
    }
    if (done) done(item);
  }
}

}  // namespace

int usable_processors() {
  cpu_set_t set;
  return std::max(1, sched_getaffinity(0, sizeof set, &set) == 0
                         ? CPU_COUNT(&set)
                         : static_cast<int>(std::thread::hardware_concurrency()));
}

ReadPace choose_pace(int threads, uint64_t staging) {
  const int most = static_cast<int>(std::min<uint64_t>(staging / (2 * kMinRead), 1 << 16));
  threads = std::clamp(threads, 1, std::max(1, most));
  return {.threads = threads, .block = std::clamp(staging / (2 * static_cast<uint64_t>(threads)), kMinRead, kMaxRead)};
}

RangeList list_items(std::vector<const ReadRange*> file_ranges, uint64_t block) {
  RangeList list{.file_ranges = std::move(file_ranges), .first_item = {}, .block = block};
  for (const ReadRange* file_range : list.file_ranges) {
    list.first_item.push_back(list.items);
    list.items += item_count(*file_range, block);
    list.bytes += bytes_of(*file_range);
  }
  return list;
}

void read_ranges(const ReadTo& to, const RangeList& list, WorkQueue& queue, const ItemDone& done) {
  to.device->is_host_memory ? read_on_host(to, list, queue, done) : read_through_staging(to, list, queue, done);
}

}  // namespace tpplan
