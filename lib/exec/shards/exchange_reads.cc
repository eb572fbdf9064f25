#include "exec/shards/exchange_reads.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/text.h"
#include "exec/ranks/deadline.h"
#include "exec/shards/staging_memory.h"

namespace tpplan {
namespace {

constexpr uint64_t kMinExchange = 4096, kMaxExchange = uint64_t{4} << 20;

// Returns the bytes of an item that one rank receives.
uint64_t bytes_for(const ReadItem& item, int rank) {
  uint64_t bytes = 0;
  for_each_target(item, [&](const ReadSegment&, const ReadTarget& target, uint64_t, uint64_t part) {
    bytes += target.rank == rank ? part * item.lines : 0;
  });
  return bytes;
}

// Copies an item's bytes for one rank, target after target, from its packed lines. Returns the end of the copy.
char* pack(const ReadItem& item, int rank, const char* packed, char* out) {
  for_each_target(item, [&](const ReadSegment&, const ReadTarget& target, uint64_t begin, uint64_t bytes) {
    if (target.rank != rank) return;
    cpu_device().copy_strided(
        out, packed + begin,
        {.run_bytes = bytes, .counts = {item.lines}, .from_strides = {item.end - item.begin}, .to_strides = {bytes}});
    out += bytes * item.lines;
  });
  return out;
}

// Copies a received packet into this rank's shards. Returns the end of the packet.
const char* unpack(const ReadTo& to, const ReadItem& item, int rank, const char* in) {
  const ShardStore& store = *to.stores[static_cast<size_t>(rank)];
  for_each_target(item, [&](const ReadSegment& segment, const ReadTarget& target, uint64_t, uint64_t bytes) {
    if (target.rank != rank) return;
    to.device->copy_strided(
        static_cast<char*>(store.shards[target.shard].data) + target_offset(item, segment, target), in,
        {.run_bytes = bytes, .counts = {item.lines}, .from_strides = {bytes}, .to_strides = {target.line_stride}});
    in += bytes * item.lines;
  });
  return in;
}

}  // namespace

// In each round rank i reads item i and sends every rank its part. All ranks split the same list of file ranges by the
// same buffer size, so no messages about the items are needed.
uint64_t exchange_reads(Comm& comm, const ReadTo& to, std::span<const ReadRange* const> file_ranges, uint64_t staging,
                        ProgressKind progress) {
  if (file_ranges.empty()) return 0;
  const Device& device = *comm.device;
  const uint64_t members = comm.node.size();
  // One buffer to read into, and for each rank one to pack, one to send and one to receive.
  const uint64_t block = std::clamp(staging / (3 * members + 1), kMinExchange, kMaxExchange);
  Group group{.ranks = comm.node};
  group.self = static_cast<size_t>(std::ranges::find(comm.node, comm.rank) - comm.node.begin());
  const bool on_host = device.is_host_memory;
  const StagingMemory read = own_staging(device.allocate_staging(block), device.release_staging, block);
  const StagingMemory packed =
      own_staging(device.allocate_staging(members * block), device.release_staging, members * block);
  const StagingMemory send = on_host ? StagingMemory(nullptr, device.release)
                                     : own_staging(device.allocate(members * block), device.release, members * block);
  const StagingMemory receive = own_staging(device.allocate(members * block), device.release, members * block);

  const Clock::time_point start = Clock::now();
  Progress shows{.title = "loading shared tensors", .kind = progress};
  for (const ReadRange* file_range : file_ranges) shows.total_bytes += bytes_of(*file_range);
  double shown = 0;
  uint64_t read_bytes = 0, done = 0;
  std::vector<ReadItem> round;  // at most one item per rank
  std::optional<Fault> fault;
  const auto finish_round = [&] {
    std::vector<uint64_t> sends(members), receives(members);
    if (group.self < round.size()) {
      const ReadItem& item = round[group.self];
      try {
        if (!fault) read_bytes += read_packed(to, item, read.get());
      } catch (...) {  // the others wait for this rank's bytes: they get some, and the reason at the end
        fault = current_error();
      }
      char* out = static_cast<char*>(packed.get());
      for (size_t m = 0; m < members; ++m) {
        out = pack(item, comm.node[m], static_cast<const char*>(read.get()), out);
        sends[m] = bytes_for(item, comm.node[m]);
      }
      if (!on_host) {
        device.from_host(send.get(), packed.get(), static_cast<uint64_t>(out - static_cast<char*>(packed.get())));
        device.synchronize();
      }
    }
    for (size_t m = 0; m < round.size(); ++m) receives[m] = bytes_for(round[m], comm.rank);
    begin_step(comm, fmt::format("load: all_to_all of {}", to.source->tensors[round.front().file_range->tensor].name));
    throw_if_failed(comm, comm.backend->all_to_all(comm, group, on_host ? packed.get() : send.get(), sends,
                                                   receive.get(), receives));
    const char* in = static_cast<const char*>(receive.get());
    for (const ReadItem& item : round) in = unpack(to, item, comm.rank, in);
    device.synchronize();
    for (const ReadItem& item : round) done += packed_bytes(item);
    show_progress(shows, done, shows.total_bytes, seconds_since(start), shown);
    round.clear();
  };
  for (const ReadRange* file_range : file_ranges) {
    const uint64_t items = item_count(*file_range, block);
    for (uint64_t i = 0; i < items; ++i) {
      round.push_back(item_at(*file_range, block, i));
      if (round.size() == members) finish_round();
    }
  }
  if (!round.empty()) finish_round();
  if (progress == ProgressKind::Bar) clear_bar();
  if (fault) throw *fault;
  return read_bytes;
}

}  // namespace tpplan
