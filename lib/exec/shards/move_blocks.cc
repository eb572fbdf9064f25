#include "exec/shards/move_blocks.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "exec/shards/read_exactly.h"
#include "exec/shards/shard_folder.h"
#include "exec/shards/shard_store.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

// Calls visit(block) for each block of at most `limit` bytes of a box of these sizes. A block has one index in the
// first dims, an interval in the next, and the others completely, so that it is contiguous in the box.
template <typename Visit>
void for_each_block(std::span<const uint64_t> sizes, uint64_t limit, Visit visit) {
  if (std::ranges::find(sizes, uint64_t{0}) != sizes.end()) return;
  size_t dim = sizes.size() - 1;
  uint64_t row = 1;  // bytes of one index of `dim`
  while (dim > 0 && row * sizes[dim] <= limit) row *= sizes[dim--];
  const uint64_t step = std::max<uint64_t>(1, limit / row);
  Box block{std::vector<uint64_t>(sizes.size()), {sizes.begin(), sizes.end()}};
  for (;;) {
    for (size_t d = 0; d < dim; ++d) block.end[d] = block.begin[d] + 1;
    block.end[dim] = std::min(block.begin[dim] + step, sizes[dim]);
    visit(block);
    block.begin[dim] = block.end[dim];
    size_t d = dim;
    while (block.begin[d] == sizes[d]) {
      if (d == 0) return;
      block.begin[d] = 0;
      ++block.begin[--d];
    }
  }
}

MoveTarget& target_file(Mover& mover, int rank, uint32_t run) {
  const auto known = mover.targets.find({rank, run});
  if (known != mover.targets.end()) return known->second;
  const std::vector<ShardFile> files = list_shard_files(describe_shards(*mover.input.after, rank), mover.input.missing);
  for (uint32_t part = 0; part < files.size(); ++part) {
    MoveTarget& target = mover.targets[{rank, part}];
    target.is_kept = is_unchanged_by(mover.input, files[part]);
    target.offsets.resize(mover.input.missing.size());
    for (const FileBox& piece : files[part].pieces) target.offsets[piece.shard] = piece.offset;
    target.file.path = (fs::path(mover.folder) / files[part].name).string();
  }
  return mover.targets.at({rank, run});
}

// Reads the intersection of a stored box and the block into mover.block, and adds its bytes to the checksum of the box.
//
// All boxes have global coordinates; packed(box) is the box as stored, dense and row-major. The intersection is either
// one range of the file, which is read at once and scattered into the block, or several ranges, which are read
// separately. Ranges arrive in ascending file order, so `sum` is the CRC of the bytes so far, with zeros for the bytes
// between ranges. CRC-32C is linear: the CRC of the box is the XOR of the CRCs of its parts, each shifted over the
// bytes after it. So several blocks can read the parts in any order, and the checksum is complete when part.bytes ==
// part.all.
void read_box(Mover& mover, const InputFile& file, uint64_t offset, const Box& stored, const Box& block,
              std::string_view name, MovedPart* part) {
  const Box both = intersection(stored, block);
  const uint64_t bytes = elements_in(both);
  const HeldBox there = packed(stored), here = packed(block), overlap = packed(both);
  mover.result.read_bytes += bytes;
  RunSum sum;
  const auto note = [&] {
    if (part == nullptr || bytes == 0) return;
    part->all = elements_in(stored);
    add_part(*part, crc32c_shifted(sum.sum, part->all - sum.end), bytes);
  };
  if (plan_copy(there, overlap, both).counts.empty()) {  // one range in the file, several in the block
    mover.run.resize(std::max(mover.run.size(), bytes));
    const uint64_t at = offset_of(there, both.begin);
    read_exactly(file, offset + at, mover.run.data(), bytes, name);
    if (part != nullptr) add_run(sum, mover.run.data(), bytes, at);
    note();
    for_each_contiguous_range(overlap, here, both, [&](uint64_t from, uint64_t to, uint64_t count) {
      std::memcpy(mover.block.data() + to, mover.run.data() + from, count);
      return true;
    });
    return;
  }
  for_each_contiguous_range(there, here, both, [&](uint64_t from, uint64_t to, uint64_t count) {
    read_exactly(file, offset + from, mover.block.data() + to, count, name);
    if (part != nullptr) add_run(sum, mover.block.data() + to, count, from);
    return true;
  });
  note();
}

void read_block(Mover& mover, size_t tensor, const Box& block) {
  const ReshardInput& input = mover.input;
  if (!input.is_known) {
    const SourceTensor& source = input.source.tensors[tensor];
    for (const uint32_t i : boxes_near(input.pieces[tensor], block)) {
      const StoredBox& piece = source.pieces[i];
      if (is_empty(intersection(piece.box, block))) continue;
      MovedPart* part = piece.sum ? &mover.read[{piece.file, i, static_cast<uint32_t>(tensor)}] : nullptr;
      if (part != nullptr) part->kept = *piece.sum;
      read_box(mover, input.source.weights.files[piece.file], piece.offset, piece.box, block, source.name, part);
    }
    return;
  }
  const ManifestParam& stored = tensor_of(*input.known.manifest, input.stored[tensor]);
  const RankBoxes& boxes = input.known.boxes[stored.layout];
  for (const uint32_t i : boxes_near(boxes.index, block)) {
    if (is_empty(intersection(boxes.boxes[i], block))) continue;
    const InputFile& file = open_shard(mover.shards, boxes.ranks[i], boxes.runs[i]);
    const OpenShard& shard = mover.shards.of_rank.at(boxes.ranks[i]);
    const uint64_t offset = shard.offsets[boxes.runs[i]][input.stored[tensor]];
    MovedPart& part = mover.read[{static_cast<uint64_t>(boxes.ranks[i]), boxes.runs[i], input.stored[tensor]}];
    part.kept = shard.sums[boxes.runs[i]][input.stored[tensor]];
    read_box(mover, file, offset, boxes.boxes[i], block, path_of(*input.known.manifest, stored), &part);
  }
}

// Writes the intersection of the block and a box of a new file.
void write_block(Mover& mover, size_t tensor, const Box& block, const RankBoxes& boxes, uint32_t member,
                 MoveTarget& target) {
  const Box& box = boxes.boxes[member];
  const Box both = intersection(block, box);
  if (target.is_kept || is_empty(both)) return;
  const char* bytes = mover.block.data();
  const uint64_t count = elements_in(both);
  if (!(both == block)) {
    mover.run.resize(std::max(mover.run.size(), count));
    for_each_contiguous_range(packed(block), packed(both), both, [&](uint64_t from, uint64_t to, uint64_t run) {
      std::memcpy(mover.run.data() + to, mover.block.data() + from, run);
      return true;
    });
    bytes = mover.run.data();
  }
  if (target.file.fd == nullptr) target.file = open_for_writing(target.file.path);
  const uint64_t at = offset_of(packed(box), both.begin);
  write_at(target.file, bytes, count, target.offsets[tensor] + at);
  MovedPart& part =
      mover.written[{static_cast<uint64_t>(boxes.ranks[member]), boxes.runs[member], static_cast<uint32_t>(tensor)}];
  part.all = elements_in(box);
  add_part(part, crc32c_shifted(crc32c_part(bytes, count), part.all - at - count), count);
  mover.result.written_bytes += count;
}

// Moves this rank's part of a band: every `helpers`-th block from block `first` on. Blocks are full rows, so that the
// parts of a stored box and of a new box are each one range in their file.
void move_band(Mover& mover, size_t tensor, const RankBoxes& boxes, const Band& band, uint64_t first,
               uint64_t helpers) {
  std::vector<MoveTarget*> targets;
  for (const uint32_t i : band.members) targets.push_back(&target_file(mover, boxes.ranks[i], boxes.runs[i]));
  if (std::ranges::all_of(targets, &MoveTarget::is_kept)) return;
  uint64_t number = 0;
  for_each_block(packed(band.box).sizes, mover.limit, [&](Box block) {
    if (number++ % helpers != first) return;
    for (size_t d = 0; d < block.begin.size(); ++d) {
      block.begin[d] += band.box.begin[d];
      block.end[d] += band.box.begin[d];
    }
    mover.block.resize(std::max(mover.block.size(), elements_in(block)));
    read_block(mover, tensor, block);
    for (size_t i = 0; i < targets.size(); ++i) write_block(mover, tensor, block, boxes, band.members[i], *targets[i]);
  });
}

}  // namespace

bool is_unchanged_by(const ReshardInput& input, const ShardFile& wanted) {
  if (!input.is_known && !input.source.is_folder_of_shards) return false;
  InputFile file{.name = shard_path(input.from, wanted.name), .fd = {}, .identity = {}};
  return open_input(file.name, file).empty() && sums_of(file, wanted).has_value();
}

void move_tensor(Mover& mover, size_t tensor, uint64_t rank, uint64_t world) {
  const RankBoxes& boxes = mover.input.wanted[tensor_of(*mover.input.after, tensor).layout];
  const uint64_t count = boxes.bands.size();
  if (count == 0) return;
  const auto up = [](uint64_t of, uint64_t by) { return (of + by - 1) / by; };
  const uint64_t begin = count > world ? up(rank * count, world) : rank * count / world,
                 end = count > world ? up((rank + 1) * count, world) : begin + 1;
  for (uint64_t i = begin; i < end; ++i) {
    const uint64_t first = up(i * world, count), helpers = count > world ? 1 : up((i + 1) * world, count) - first;
    const uint64_t own = count > world ? 0 : (rank - first + tensor) % helpers;
    move_band(mover, tensor, boxes, boxes.bands[i], own, helpers);
  }
}

}  // namespace tpplan
