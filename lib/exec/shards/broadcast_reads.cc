#include "exec/shards/broadcast_reads.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/text.h"
#include "exec/ranks/deadline.h"
#include "exec/shards/staging_memory.h"

namespace tpplan {
namespace {

constexpr uint64_t kMinBroadcast = 4096, kMaxBroadcast = uint64_t{4} << 20;

// The buffers of a group's rounds, as large as its size and `staging` permit.
struct Blocks {
  uint64_t block = 0;
  StagingMemory read, send, receive;
};

Blocks take_blocks(const Device& device, uint64_t members, uint64_t staging) {
  const uint64_t block = std::clamp(staging / (members + 2), kMinBroadcast, kMaxBroadcast);
  const bool on_host = device.is_host_memory;
  return {.block = block,
          .read = own_staging(device.allocate_staging(block), device.release_staging, block),
          .send = on_host ? StagingMemory(nullptr, device.release)
                          : own_staging(device.allocate(block), device.release, block),
          .receive = own_staging(device.allocate(members * block), device.release, members * block)};
}

}  // namespace

std::vector<int> replica_ranks(const ParamLayout& layout, const Mesh& mesh, int rank) {
  std::vector<std::vector<int64_t>> alike{coordinate_of(mesh, rank)};
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (uses_axis(layout.sharding.spec, static_cast<AxisId>(axis))) continue;
    std::vector<std::vector<int64_t>> more;
    for (std::vector<int64_t>& coordinate : alike) {
      for (int64_t index = 0; index < mesh.axes[axis].size; ++index) {
        coordinate[axis] = index;
        more.push_back(coordinate);
      }
    }
    alike = std::move(more);
  }
  std::vector<int> ranks;
  for (const std::vector<int64_t>& coordinate : alike) ranks.push_back(static_cast<int>(rank_of(mesh, coordinate)));
  std::ranges::sort(ranks);
  return ranks;
}

// Rank i of a group reads item i of a round. All ranks of the group have the same items, so no messages about them are
// needed.
BroadcastResult broadcast_reads(Comm& comm, const ReadTo& to, std::span<const ReadRange* const> file_ranges,
                                uint64_t staging, ProgressKind progress) {
  const Device& device = *comm.device;
  const Clock::time_point start = Clock::now();
  Progress shows{.title = "loading shared tensors", .kind = progress};
  for (const ReadRange* file_range : file_ranges) shows.total_bytes += bytes_of(*file_range);
  double shown = 0;
  uint64_t done = 0;
  BroadcastResult result;
  std::optional<Fault> fault;
  std::optional<Blocks> blocks;
  Group group;
  std::vector<ReadItem> round;  // at most one item per rank
  const auto finish_round = [&] {
    const std::string& name = std::string(to.source->tensors[round.front().file_range->tensor].name);
    begin_step(comm, fmt::format("load: all_gather of {} over {}", name, counted(group.ranks.size(), "rank")));
    std::vector<uint64_t> bytes(group.ranks.size());
    for (size_t m = 0; m < round.size(); ++m) bytes[m] = packed_bytes(round[m]);
    if (bytes[group.self] != 0) {
      try {
        if (!fault) result.read_bytes += read_packed(to, round[group.self], blocks->read.get());
        for_each_target(round[group.self], [&](const ReadSegment&, const ReadTarget&, uint64_t, uint64_t wanted) {
          result.needed_bytes += wanted * round[group.self].lines;
        });
      } catch (...) {  // the others wait for this rank's bytes: they get some, and the reason at the end
        fault = current_error();
      }
      if (!device.is_host_memory) {
        device.from_host(blocks->send.get(), blocks->read.get(), bytes[group.self]);
        device.synchronize();
      }
    }
    const void* send = device.is_host_memory ? blocks->read.get() : blocks->send.get();
    throw_if_failed(comm, comm.backend->all_gather(comm, group, send, blocks->receive.get(), bytes));
    const char* received = static_cast<const char*>(blocks->receive.get());
    for (size_t m = 0; m < round.size(); received += bytes[m++]) {
      copy_to_targets(to, round[m], received);
      done += bytes[m];
    }
    device.synchronize();
    show_progress(shows, done, shows.total_bytes, seconds_since(start), shown);
    round.clear();
  };
  uint32_t tensor = UINT32_MAX;
  for (const ReadRange* file_range : file_ranges) {
    if (file_range->tensor != tensor) {  // the group can differ, so a new sequence of rounds begins
      if (!round.empty()) finish_round();
      tensor = file_range->tensor;
      std::vector<int> ranks =
          replica_ranks(layout_of(*to.manifest, tensor_of(*to.manifest, tensor)), to.manifest->mesh, comm.rank);
      if (ranks != group.ranks) {
        blocks.reset();
        group.ranks = std::move(ranks);
        group.self = static_cast<size_t>(std::ranges::find(group.ranks, comm.rank) - group.ranks.begin());
        blocks = take_blocks(device, group.ranks.size(), staging);
      }
    }
    const uint64_t items = item_count(*file_range, blocks->block);
    for (uint64_t i = 0; i < items; ++i) {
      round.push_back(item_at(*file_range, blocks->block, i));
      if (round.size() == group.ranks.size()) finish_round();
    }
  }
  if (!round.empty()) finish_round();
  if (progress == ProgressKind::Bar) clear_bar();
  if (fault) throw *fault;
  return result;
}

}  // namespace tpplan
