#include "exec/shards/verify_shards.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/text.h"
#include "exec/ranks/deadline.h"
#include "exec/ranks/ranks_sharing_memory.h"
#include "exec/shards/byte_boxes.h"
#include "exec/shards/load_shards.h"
#include "exec/shards/read_exactly.h"
#include "exec/shards/work_queue.h"
#include "exec/shards/work_together.h"
#include "sharding/placed_intervals.h"

namespace tpplan {
namespace {

constexpr uint64_t kBlock = uint64_t{512} << 10;  // fits into a cache

// The boxes of a tensor that a rank holds, and their host memory.
struct Held {
  int rank = 0;
  HeldBox box;
  const char* data = nullptr;
};

// One block of a stored box: its bytes [begin, end).
struct VerifyBlock {
  uint32_t tensor = 0, piece = 0;
  uint64_t begin = 0, end = 0;
};

struct Difference {
  uint64_t block = UINT64_MAX;  // index of the block that has it
  std::optional<Fault> fault;
};

std::string hex(const char* bytes, uint64_t count) {
  std::string text;
  for (uint64_t i = 0; i < count; ++i) text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  return text;
}

std::vector<Held> holders_of(std::span<const ShardStore> stores, size_t tensor) {
  std::vector<Held> holders;
  for (const ShardStore& store : stores) {
    const Shard& shard = store.shards[tensor];
    for (HeldBox& box : held_boxes(shard.layout->shape, shard.layout->dtype, shard.slice))
      holders.push_back({store.rank, std::move(box), static_cast<const char*>(shard.data)});
  }
  return holders;
}

// Names the first element that differs in bytes [column, column + count) of a row.
Fault describe(const ParamLayout& layout, std::string_view path, const Held& held, const InputFile& file,
               uint64_t file_offset, std::span<const uint64_t> index, const char* mine, const char* theirs,
               uint64_t count) {
  uint64_t at = 0;
  while (at + 1 < count && mine[at] == theirs[at]) ++at;
  const uint64_t width = std::max<uint64_t>(1, dtypes()[layout.dtype].bits / 8),
                 in_element = (index.back() + at) % width;
  const uint64_t begin = at - std::min(at, in_element), bytes = std::min(width, count - begin);
  std::vector<uint64_t> element(index.begin(), index.end());
  element.back() = (index.back() + at) * 8 / dtypes()[layout.dtype].bits;
  if (layout.shape.empty()) element.clear();
  return {.code = Code::ShardDiffers,
          .message = fmt::format("rank {}: `{}`[{}] is {} in the shard and {} in {} at byte {}", held.rank,
                                 escape_for_terminal(path), fmt::join(element, ", "), hex(mine + begin, bytes),
                                 hex(theirs + begin, bytes), escape_for_terminal(file.name), file_offset + begin),
          .help = "load or save the shards again, or verify them against the weights that they come from",
          .rank = held.rank};
}

struct Verifier {
  const Manifest* manifest = nullptr;
  const WeightSource& source;
  std::vector<VerifyBlock> blocks;
  std::mutex mutex;  // guards first
  Difference first;
  std::atomic<uint64_t> compared{0};
};

// Compares a block, whose content is in `bytes`, row by row with every holder. Returns the first difference. A block
// can begin and end inside a row: `at` counts bytes of the stored box, `index` is the global index of its row.
std::optional<Fault> compare_block(Verifier& verifier, const VerifyBlock& block, std::span<const Held> holders,
                                   const char* bytes) {
  const StoredBox& piece = verifier.source.tensors[block.tensor].pieces[block.piece];
  const size_t last = piece.box.begin.size() - 1;
  const uint64_t row = piece.box.end[last] - piece.box.begin[last];
  std::vector<uint64_t> index(last + 1);
  uint64_t rest = block.begin / row, compared = 0;
  for (size_t d = last; d-- > 0;) {
    const uint64_t size = piece.box.end[d] - piece.box.begin[d];
    index[d] = piece.box.begin[d] + rest % size;
    rest /= size;
  }
  for (uint64_t at = block.begin; at < block.end;) {
    const uint64_t column = piece.box.begin[last] + at % row, count = std::min(row - at % row, block.end - at);
    for (const Held& held : holders) {
      bool inside = true;
      for (size_t d = 0; inside && d < last; ++d)
        inside = held.box.box.begin[d] <= index[d] && index[d] < held.box.box.end[d];
      const uint64_t low = std::max(column, held.box.box.begin[last]),
                     high = std::min(column + count, held.box.box.end[last]);
      if (!inside || low >= high) continue;
      index[last] = low;
      const char* mine = held.data + offset_of(held.box, index);
      const char* theirs = bytes + (at - block.begin) + (low - column);
      if (std::memcmp(mine, theirs, high - low) != 0) {
        const ManifestParam& param = tensor_of(*verifier.manifest, block.tensor);
        return describe(layout_of(*verifier.manifest, param), path_of(*verifier.manifest, param), held,
                        verifier.source.weights.files[piece.file], piece.offset + at + (low - column), index, mine,
                        theirs, high - low);
      }
      compared += high - low;
    }
    at += count;
    for (size_t d = last; d > 0 && ++index[d - 1] == piece.box.end[d - 1]; --d) index[d - 1] = piece.box.begin[d - 1];
  }
  verifier.compared += compared;
  return std::nullopt;
}

// True if one of the holders' boxes has rows of the block; other blocks are not read.
bool is_held(const StoredBox& piece, const VerifyBlock& block, std::span<const Held> holders) {
  const uint64_t row = row_size(packed(piece.box), 1), low = piece.box.begin[0] + block.begin / row,
                 high = piece.box.begin[0] + (block.end + row - 1) / row;
  return std::ranges::any_of(
      holders, [&](const Held& held) { return held.box.box.begin[0] < high && low < held.box.box.end[0]; });
}

void list_blocks(Verifier& verifier, std::span<const ShardStore> stores) {
  std::set<std::pair<uint32_t, uint64_t>> seen;  // tied names can have the same bytes
  for (uint32_t i = 0; i < verifier.source.tensors.size(); ++i) {
    const std::vector<StoredBox>& pieces = verifier.source.tensors[i].pieces;
    const std::vector<Held> holders = holders_of(stores, i);
    for (uint32_t p = 0; p < pieces.size(); ++p) {
      if (!seen.insert({pieces[p].file, pieces[p].offset}).second) continue;
      const uint64_t bytes = elements_in(pieces[p].box);
      for (uint64_t begin = 0; begin < bytes; begin += kBlock) {
        const VerifyBlock block{i, p, begin, std::min(bytes, begin + kBlock)};
        if (is_held(pieces[p], block, holders)) verifier.blocks.push_back(block);
      }
    }
  }
}

void verify_blocks(Verifier& verifier, std::span<const ShardStore> stores, WorkQueue& queue) {
  std::vector<char> bytes(kBlock);
  std::vector<Held> holders;
  std::vector<std::vector<char>> fetched;  // shards of a GPU
  uint32_t tensor = UINT32_MAX;
  const Device& device = *stores.front().device;
  for (uint64_t number = 0; take_work(queue, number);) {
    const VerifyBlock& block = verifier.blocks[number];
    if (tensor != block.tensor) {
      tensor = block.tensor;
      holders = holders_of(stores, tensor);
      fetched.resize(holders.size());
      for (size_t h = 0; h < fetched.size(); ++h)
        holders[h].data = host_view(device, holders[h].data, row_size(holders[h].box, 0), fetched[h]);
    }
    const StoredBox& piece = verifier.source.tensors[tensor].pieces[block.piece];
    read_exactly(verifier.source.weights.files[piece.file], piece.offset + block.begin, bytes.data(),
                 block.end - block.begin, verifier.source.tensors[tensor].name);
    std::optional<Fault> difference = compare_block(verifier, block, holders, bytes.data());
    queue.done_bytes += block.end - block.begin;
    if (!difference) continue;
    // Threads take blocks in order and finish those that they have taken, so the lowest index is the first difference.
    const std::lock_guard lock(verifier.mutex);
    if (number < verifier.first.block) verifier.first = {number, std::move(difference)};
    queue.count = std::min<uint64_t>(queue.count, number);
  }
}

}  // namespace

std::vector<Fault> tiling_errors(const Manifest& manifest) {
  std::vector<Fault> faults;
  std::set<const ParamLayout*> seen;
  const int64_t ranks = device_count(manifest.mesh);
  for (size_t i = 0; i < tensor_count(manifest); ++i) {
    const ManifestParam& param = tensor_of(manifest, i);
    const ParamLayout& layout = layout_of(manifest, param);
    if (!seen.insert(&layout).second) continue;
    std::vector<Box> boxes;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, rank);
      if (!is_writing_rank(layout, manifest.mesh, coordinate)) continue;
      for (const HeldBox& held : held_boxes(layout.shape, layout.dtype,
                                            shard_slice(layout.shape, layout.sharding, manifest.mesh, coordinate)))
        boxes.push_back(held.box);
    }
    std::string misplaced;
    for (int64_t rank = 0; rank < ranks && misplaced.empty(); ++rank)
      misplaced = placement_mismatch(layout.shape, layout.sharding, manifest.mesh, rank);
    if (!misplaced.empty())
      faults.push_back(
          {.code = Code::ShardsDoNotTile,
           .message = fmt::format("`{}`: {}", escape_for_terminal(path_of(manifest, param)), misplaced),
           .help = "install the version of tpplan that compiled the manifest: this version computes different shards"});
    const std::string fault = tiling_error(byte_sizes(layout.shape, layout.dtype), boxes);
    if (!fault.empty())
      faults.push_back({.code = Code::ShardsDoNotTile,
                        .message = fmt::format("`{}`: its shards do not tile the tensor: {}",
                                               escape_for_terminal(path_of(manifest, param)), fault),
                        .help = "compile the plan again"});
  }
  return faults;
}

VerifyResult verify_shards(Comm& comm, const WeightSource& source, std::span<const ShardStore> stores, int threads,
                           ProgressKind progress) {
  const Clock::time_point start = Clock::now();
  Verifier verifier{.source = source, .blocks = {}, .mutex = {}, .first = {}};
  const auto list = [&] {
    verifier.manifest = stores.front().manifest;
    list_blocks(verifier, stores);
  };
  work_together(comm, "verify: listing what to read", stores.empty() ? std::function<void()>() : list);
  uint64_t total = 0;
  for (const VerifyBlock& block : verifier.blocks) total += block.end - block.begin;
  begin_step(comm, "verify: reading the source again");
  WorkQueue queue;
  queue.count = verifier.blocks.size();
  start_work(queue, stores.empty() ? 0 : working_threads(comm, threads), [&](WorkQueue& work) {
    use_device(comm);
    verify_blocks(verifier, stores, work);
  });
  finish_together(comm, queue, {.title = "verifying", .total_bytes = total, .kind = progress});
  if (!stores.empty()) check_unchanged(source);
  return {.difference = verifier.first.fault, .compared_bytes = verifier.compared, .seconds = seconds_since(start)};
}

}  // namespace tpplan
