#include "exec/shards/shard_store.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "diagnostics/fault.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

constexpr uint64_t kAlignment = 256;  // of a shard, as GPU libraries need

}  // namespace

std::vector<uint32_t> first_tied_params(const Manifest& manifest) {
  std::vector<uint32_t> first(manifest.parameters.size());
  std::iota(first.begin(), first.end(), 0u);
  for (const std::vector<uint32_t>& group : manifest.tied) {
    const uint32_t least = *std::ranges::min_element(group);
    for (const uint32_t member : group) first[member] = least;
  }
  return first;
}

size_t tensor_count(const Manifest& manifest) { return manifest.parameters.size() + manifest.buffers.size(); }

const ManifestParam& tensor_of(const Manifest& manifest, size_t index) {
  const size_t parameters = manifest.parameters.size();
  return index < parameters ? manifest.parameters[index] : manifest.buffers[index - parameters];
}

namespace {

// Returns the bytes of all shards of a rank, each rounded up to a multiple of `alignment`. A tied name takes no memory:
// the first name of its group has the tensor.
uint64_t add_up(const Manifest& manifest, int rank, uint64_t alignment) {
  const std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, rank);
  const std::vector<uint32_t> first = first_tied_params(manifest);
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensor_count(manifest); ++i) {
    if (i < first.size() && first[i] != i) continue;
    const ParamLayout& layout = layout_of(manifest, tensor_of(manifest, i));
    const uint64_t more = bytes_of(layout.dtype, local_shape_of(layout, manifest.mesh, coordinate));
    if (more > kTooManyBytes - alignment ||
        __builtin_add_overflow(bytes, (more + alignment - 1) / alignment * alignment, &bytes))
      throw Fault{.code = Code::ResourceLimit,
                  .message = fmt::format("the size of the shards of rank {} in bytes exceeds 64 bits", rank),
                  .rank = rank};
  }
  return bytes;
}

}  // namespace

void check_packing(const Manifest& manifest) {
  for (size_t i = 0; i < tensor_count(manifest); ++i) {
    const ManifestParam& param = tensor_of(manifest, i);
    const ParamLayout& layout = layout_of(manifest, param);
    const uint64_t bits = dtypes()[layout.dtype].bits;
    if (bits >= 8 || layout.shape.empty() || static_cast<uint64_t>(layout.shape.back()) % 8 * bits % 8 == 0) continue;
    throw Fault{
        .code = Code::RowsSplitBytes,
        .message = fmt::format(
            "`{}` is {} of {}, {} bits per element: its rows end inside a byte, but ranks move full bytes only",
            escape_for_terminal(path_of(manifest, param)), dtypes()[layout.dtype].name, shape_text(layout.shape), bits),
        .help = "pad its last dim"};
  }
}

uint64_t bytes_of_rank(const Manifest& manifest, int rank) { return add_up(manifest, rank, 1); }
uint64_t memory_of_rank(const Manifest& manifest, int rank) { return add_up(manifest, rank, kAlignment); }

ShardStore describe_shards(const Manifest& manifest, int rank) {
  ShardStore store{.manifest = &manifest, .rank = rank};
  const std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, rank);
  for (size_t i = 0; i < tensor_count(manifest); ++i) {
    const ManifestParam& param = tensor_of(manifest, i);
    const ParamLayout& layout = layout_of(manifest, param);
    const std::vector<int64_t>& shape = local_shape_of(layout, manifest.mesh, coordinate);
    store.shards.push_back({.path = path_of(manifest, param),
                            .layout = &layout,
                            .slice = shard_slice(layout.shape, layout.sharding, manifest.mesh, coordinate),
                            .shape = shape,
                            .bytes = bytes_of(layout.dtype, shape)});
  }
  return store;
}

ShardStore allocate_shards(const Manifest& manifest, int rank, const Device& device) {
  const uint64_t needed = memory_of_rank(manifest, rank), free = device.free_bytes();
  const auto reject = [&] {
    return Fault{.code = Code::OutOfMemory,
                 .message = fmt::format("the shards of rank {} need {}, but only {} of memory are free on the {}", rank,
                                        human_bytes(needed), human_bytes(free), device.memory),
                 .help = "use more ranks, or free memory",
                 .rank = rank};
  };
  if (needed > free) throw reject();
  ShardStore store = describe_shards(manifest, rank);
  store.device = &device;
  char* memory = needed == 0 ? nullptr : static_cast<char*>(device.allocate(needed));
  if (needed != 0 && memory == nullptr) throw reject();
  if (memory != nullptr) store.memory.emplace_back(memory, [release = device.release](void* block) { release(block); });
  const std::vector<uint32_t> first = first_tied_params(manifest);
  for (size_t i = 0; i < store.shards.size(); ++i) {
    Shard& shard = store.shards[i];
    if (shard.bytes == 0) continue;
    const bool tied = i < first.size() && first[i] != i;
    shard.data = tied ? store.shards[first[i]].data : memory;
    if (!tied) memory += (shard.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return store;
}

}  // namespace tpplan
