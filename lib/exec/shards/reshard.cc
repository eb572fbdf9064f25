#include "exec/shards/reshard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/crc32c.h"
#include "base/file_limit.h"
#include "base/keyed_hash.h"
#include "base/long_calls.h"
#include "exec/ranks/gather.h"
#include "exec/ranks/gather_bytes.h"
#include "exec/shards/box_sums.h"
#include "exec/shards/new_folder.h"
#include "exec/shards/read_exactly.h"
#include "exec/shards/shard_files.h"
#include "exec/shards/shard_folder.h"
#include "exec/shards/shard_store.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMinMove = 4096, kMaxMove = uint64_t{8} << 20;
constexpr uint64_t kMaxOpenFiles = 64;  // open files of the old folder for each rank

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

// The checksum of ranges of a stored box that arrive in ascending order.
struct RunSum {
  uint32_t sum = 0;
  uint64_t end = 0, bytes = 0;  // end and total of the ranges so far
  uint64_t gap = 0;             // the distance that `move` is for
  Crc32cMove move;
};

void add_run(RunSum& sum, const void* bytes, uint64_t count, uint64_t offset) {
  const uint64_t gap = sum.bytes == 0 ? 0 : offset - sum.end;
  if (gap != 0 && gap != sum.gap) {
    sum.gap = gap;
    sum.move = crc32c_move(gap);
  }
  if (gap != 0) sum.sum = crc32c_moved(sum.sum, sum.move);
  sum.sum = crc32c_part(bytes, count, sum.sum);
  sum.end = offset + count;
  sum.bytes += count;
}

void add_part(MovedPart& part, uint32_t sum, uint64_t bytes) {
  part.sum ^= sum;
  part.bytes += bytes;
}

// A file of the new folder that a rank writes into. `is_kept`: it is a link or copy of the old file.
struct Target {
  bool is_kept = false;
  std::vector<uint64_t> offsets;  // of each tensor's box
  OutputFile file;                // open from the first write on
};

// The state of one rank's work.
struct Mover {
  const ReshardInput& input;
  std::string folder;
  OpenShards shards;
  std::map<std::pair<int, uint32_t>, Target> targets;  // by rank and index of the rank's file
  std::vector<ShardFile> own;                          // files of this rank except those that are kept
  MovedParts read, written;
  uint64_t limit = 0;            // of a block
  std::vector<char> block, run;  // buffers, which grow as needed
  ReshardResult result;
};

// True if the file of this name in the old folder has the same tensors and boxes.
bool is_unchanged_by(const ReshardInput& input, const ShardFile& wanted) {
  if (!input.is_known && !input.source.is_folder_of_shards) return false;
  InputFile file{.name = shard_path(input.from, wanted.name), .fd = {}, .identity = {}};
  return open_input(file.name, file).empty() && sums_of(file, wanted).has_value();
}

// Creates the file `wanted` of the new folder from the unchanged file of the same name in the old one: a hard link, or
// a copy if linking fails. Compares its boxes with their checksums in either case.
void link_file(Mover& mover, const ShardFile& wanted, const std::string& to) {
  InputFile file{.name = shard_path(mover.input.from, wanted.name), .fd = {}, .identity = {}};
  const bool is_linked = noted_call("link", to, kNoOffset, [&] { return link(file.name.c_str(), to.c_str()); }) == 0;
  const std::string reason = open_input(is_linked ? to : file.name, file);
  if (!reason.empty()) throw Fault{.code = Code::WeightsUnreadable, .message = reason, .place = file.name};
  const std::optional<std::vector<uint32_t>> kept = sums_of(file, wanted);
  if (!kept)
    throw Fault{.code = Code::WeightsChanged,
                .message = "the file changed while it was read",
                .help = "run again when no process writes the file",
                .place = file.name};
  mover.result.linked_bytes += size_of(file);
  const OutputFile out = is_linked ? OutputFile{} : create_file(to);
  const auto read_range = [&](uint64_t begin, uint64_t count, const std::string& name) {
    uint32_t sum = 0;
    for (uint64_t done = 0; done < count; done += mover.limit) {
      const uint64_t bytes = std::min(mover.limit, count - done);
      mover.block.resize(std::max(mover.block.size(), bytes));
      read_exactly(file, begin + done, mover.block.data(), bytes, name);
      sum = crc32c_part(mover.block.data(), bytes, sum);
      if (!is_linked) write_at(out, mover.block.data(), bytes, begin + done);
    }
    return sum;
  };
  std::ignore = read_range(0, wanted.head.size(), wanted.name);
  for (size_t p = 0; p < wanted.pieces.size(); ++p) {
    const uint64_t bytes = elements_in(wanted.pieces[p].held.box);
    const Manifest& names = *mover.input.after;
    const std::string tensor{path_of(names, tensor_of(names, wanted.pieces[p].shard))};
    const uint32_t found = crc32c_of(read_range(wanted.pieces[p].offset, bytes, tensor), bytes);
    if (bytes != 0 && found != (*kept)[p]) throw Fault(*checksum_error(found, (*kept)[p], tensor, file.name));
    mover.result.checked_bytes += bytes;
  }
  if (!is_linked) sync_file(out);
}

void create_local_files(Mover& mover, int rank) {
  for (ShardFile& file : list_shard_files(describe_shards(*mover.input.after, rank), mover.input.missing)) {
    const std::string path = (fs::path(mover.folder) / file.name).string();
    if (is_unchanged_by(mover.input, file)) {
      link_file(mover, file, path);
      continue;
    }
    std::ignore = create_file(path);  // seal_local_files writes its head
    mover.own.push_back(std::move(file));
  }
}

Target& target_file(Mover& mover, int rank, uint32_t run) {
  const auto known = mover.targets.find({rank, run});
  if (known != mover.targets.end()) return known->second;
  const std::vector<ShardFile> files = list_shard_files(describe_shards(*mover.input.after, rank), mover.input.missing);
  for (uint32_t part = 0; part < files.size(); ++part) {
    Target& target = mover.targets[{rank, part}];
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
    add_part(*part, crc32c_moved(sum.sum, part->all - sum.end), bytes);
  };
  if (plan_copy(there, overlap, both).counts.empty()) {  // one range in the file, several in the block
    mover.run.resize(std::max(mover.run.size(), bytes));
    const uint64_t at = offset_of(there, both.begin);
    read_exactly(file, offset + at, mover.run.data(), bytes, name);
    if (part != nullptr) add_run(sum, mover.run.data(), bytes, at);
    note();
    for_each_run(overlap, here, both, [&](uint64_t from, uint64_t to, uint64_t count) {
      std::memcpy(mover.block.data() + to, mover.run.data() + from, count);
      return true;
    });
    return;
  }
  for_each_run(there, here, both, [&](uint64_t from, uint64_t to, uint64_t count) {
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
                 Target& target) {
  const Box& box = boxes.boxes[member];
  const Box both = intersection(block, box);
  if (target.is_kept || is_empty(both)) return;
  const char* bytes = mover.block.data();
  const uint64_t count = elements_in(both);
  if (!(both == block)) {
    mover.run.resize(std::max(mover.run.size(), count));
    for_each_run(packed(block), packed(both), both, [&](uint64_t from, uint64_t to, uint64_t run) {
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
  add_part(part, crc32c_moved(crc32c_part(bytes, count), part.all - at - count), count);
  mover.result.written_bytes += count;
}

// Moves this rank's part of a band: every `helpers`-th block from block `first` on. Blocks are full rows, so that the
// parts of a stored box and of a new box are each one range in their file.
void move_band(Mover& mover, size_t tensor, const RankBoxes& boxes, const Band& band, uint64_t first,
               uint64_t helpers) {
  std::vector<Target*> targets;
  for (const uint32_t i : band.members) targets.push_back(&target_file(mover, boxes.ranks[i], boxes.runs[i]));
  if (std::ranges::all_of(targets, &Target::is_kept)) return;
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

// Distributes the bands of a tensor over the ranks: a rank moves several bands, or several ranks share the blocks of
// one band. The first rank differs between tensors, so that all ranks move a similar number of bytes, in few files
// each.
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

void add_parts(MovedParts& to, const MovedParts& from) {
  for (const auto& [key, part] : from) {
    MovedPart& there = to[key];
    add_part(there, part.sum, part.bytes);
    there.all = part.all;
    there.kept = part.kept;
  }
}

// A message with the checksum of one box that was read or written.
struct PartWords {
  bool is_written = false;
  uint64_t file = 0;
  uint32_t run = 0, tensor = 0, sum = 0, kept = 0;
  uint64_t bytes = 0, all = 0;
};
auto fields(PartWords& part) {
  return std::tie(part.is_written, part.file, part.run, part.tensor, part.sum, part.kept, part.bytes, part.all);
}
struct PartList {
  std::vector<PartWords> parts;
};
auto fields(PartList& list) { return std::tie(list.parts); }

// Sends every checksum to the rank that compares it: the owner of a new file, and rank `file % world` for an old one.
// Ranks of one process share `sums` and send nothing.
void exchange_parts(Comm& comm, MovedSums& sums) {
  if (comm.process.size() == static_cast<size_t>(comm.world)) return;
  const uint64_t world = static_cast<uint64_t>(comm.world);
  std::vector<PartList> lists(world);
  for (const bool is_written : {false, true}) {
    for (const auto& [key, part] : is_written ? sums.written : sums.read)
      lists[key.file % world].parts.push_back(
          {is_written, key.file, key.run, key.tensor, part.sum, part.kept, part.bytes, part.all});
  }
  std::vector<std::string> texts;
  for (const PartList& list : lists) texts.push_back(list.parts.empty() ? "" : to_message(list));
  Group everyone{.ranks = std::vector<int>(world), .self = static_cast<size_t>(comm.rank)};
  std::iota(everyone.ranks.begin(), everyone.ranks.end(), 0);
  texts = exchange_bytes(comm, everyone, texts);
  sums.read.clear();
  sums.written.clear();
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    PartList list;
    if (!texts[rank].empty() && !from_message(texts[rank], list)) throw damaged_message(static_cast<int>(rank));
    for (const PartWords& part : list.parts)
      add_parts(part.is_written ? sums.written : sums.read,
                {{{part.file, part.run, part.tensor}, {part.sum, part.bytes, part.all, part.kept}}});
  }
}

// Returns the path of the file of the old folder that a key names.
std::string file_of(const ReshardInput& input, const StoredBoxKey& key) {
  if (!input.is_known) return input.source.weights.files[key.file].name;
  const ShardStore rank = describe_shards(*input.known.manifest, static_cast<int>(key.file));
  return (fs::path(input.from) / list_shard_files(rank, input.known.missing)[key.run].name).string();
}

// Compares this rank's part of the old folder with its checksums.
void check_read(Mover& mover, const MovedSums& sums, const Comm& comm) {
  const ReshardInput& input = mover.input;
  const Manifest& names = input.is_known ? *input.known.manifest : *input.after;
  const uint64_t end = sums.read.empty() ? 0 : sums.read.rbegin()->first.file + 1;
  for (uint64_t number = static_cast<uint64_t>(comm.rank); number < end; number += static_cast<uint64_t>(comm.world)) {
    for (auto at = sums.read.lower_bound({.file = number}); at != sums.read.end() && at->first.file == number; ++at) {
      const auto& [key, part] = *at;
      if (part.bytes != part.all) continue;
      mover.result.checked_bytes += part.bytes;
      const uint32_t found = crc32c_of(part.sum, part.all);
      if (found != part.kept)
        throw Fault(
            *checksum_error(found, part.kept, path_of(names, tensor_of(names, key.tensor)), file_of(input, key)));
    }
  }
}

void seal_local_files(Mover& mover, const MovedSums& sums, int rank) {
  const std::vector<ShardFile> all = list_shard_files(describe_shards(*mover.input.after, rank), mover.input.missing);
  for (ShardFile& file : mover.own) {
    const auto same = std::ranges::find(all, file.name, &ShardFile::name);
    const auto run = static_cast<uint32_t>(same - all.begin());
    for (size_t p = 0; p < file.pieces.size(); ++p) {
      const uint64_t bytes = elements_in(file.pieces[p].held.box);
      const auto part =
          sums.written.find({static_cast<uint64_t>(rank), run, static_cast<uint32_t>(file.pieces[p].shard)});
      if (bytes != 0 && (part == sums.written.end() || part->second.bytes != bytes))
        throw std::logic_error("a file of the new folder is incomplete");
      put_sum(file, p, bytes == 0 ? 0 : crc32c_of(part->second.sum, bytes));
    }
    const OutputFile out = open_for_writing((fs::path(mover.folder) / file.name).string());
    write_at(out, file.head.data(), file.head.size(), 0);
    sync_file(out);
  }
}

}  // namespace

bool list_moves(ReshardInput& input) {
  const Manifest& after = *input.after;
  const size_t tensors = tensor_count(after);
  input.wanted = list_rank_boxes(after);
  if (!input.is_known) {
    input.missing = input.source.missing;
    for (const SourceTensor& tensor : input.source.tensors) {
      std::vector<Box> boxes;
      for (const StoredBox& piece : tensor.pieces) boxes.push_back(piece.box);
      input.pieces.push_back(index_boxes(boxes));
    }
    return true;
  }
  const Manifest& before = *input.known.manifest;
  TextMap<std::string_view, uint32_t> numbers;
  for (uint32_t i = 0; i < input.known.missing.size(); ++i) numbers[path_of(before, tensor_of(before, i))] = i;
  if (numbers.size() != tensors || input.known.missing.size() != tensors) return false;
  for (size_t i = 0; i < tensors; ++i) {
    const ManifestParam& wanted = tensor_of(after, i);
    const auto found = numbers.find(path_of(after, wanted));
    if (found == numbers.end()) return false;
    const ParamLayout& old = layout_of(before, tensor_of(before, found->second));
    if (old.shape != layout_of(after, wanted).shape || old.dtype != layout_of(after, wanted).dtype) return false;
    input.stored.push_back(found->second);
    input.missing.push_back(input.known.missing[found->second]);
    if (input.missing[i] && i < after.parameters.size()) return false;
  }
  return true;
}

ReshardResult reshard(Comm& comm, const ReshardInput& input, MovedSums& sums, const std::string& shardings_sha256,
                      const std::string& path, uint64_t staging) {
  const uint64_t files = count_files().limit / (4 * comm.process.size());
  Mover mover{
      .input = input,
      .folder = {},
      .shards = {.folder = &input.known, .max_open = std::clamp<uint64_t>(files, 1, kMaxOpenFiles), .of_rank = {}},
      .targets = {},
      .own = {},
      .read = {},
      .written = {},
      .limit = std::clamp(staging / 2, kMinMove, kMaxMove),
      .block = {},
      .run = {},
      .result = {}};
  FolderSteps steps;
  steps.create = [&](const std::string& folder) {
    mover.folder = folder;
    create_local_files(mover, comm.rank);
  };
  steps.write = [&](const std::string&) {
    for (size_t t = 0; t < input.missing.size(); ++t) {
      if (!input.missing[t]) move_tensor(mover, t, static_cast<uint64_t>(comm.rank), static_cast<uint64_t>(comm.world));
    }
    for (const auto& [place, target] : mover.targets) {
      if (target.file.fd != nullptr) sync_file(target.file);
    }
    input.is_known ? check_unchanged(mover.shards) : check_unchanged(input.source);
    const std::lock_guard lock(sums.mutex);
    add_parts(sums.read, mover.read);
    add_parts(sums.written, mover.written);
  };
  steps.exchange = [&] { exchange_parts(comm, sums); };
  steps.seal = [&](const std::string&) {
    check_read(mover, sums, comm);
    seal_local_files(mover, sums, comm.rank);
  };
  steps.finish = [&](const std::string& folder) { write_note(folder, shardings_sha256, input.after->mesh); };
  write_folder(comm, path, steps);
  for (const auto& [rank, shard] : mover.shards.of_rank) mover.result.opened_files += shard.files.size();
  if (!input.is_known) mover.result.opened_files = input.source.weights.files.size();
  return mover.result;
}

}  // namespace tpplan
