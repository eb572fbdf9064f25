#include "exec/shards/reshard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/crc32c.h"
#include "base/file_limit.h"
#include "base/keyed_hash.h"
#include "base/long_calls.h"
#include "exec/shards/box_sums.h"
#include "exec/shards/move_blocks.h"
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

// Creates the file `wanted` of the new folder from the unchanged file of the same name in the old one: a hard link, or
// a copy if linking fails. Compares its boxes with their checksums in either case.
void link_file(Mover& mover, const ShardFile& wanted, const std::string& to) {
  InputFile file{.name = shard_path(mover.input.from, wanted.name), .fd = {}, .identity = {}};
  const bool is_linked =
      make_registered_call("link", to, kNoOffset, [&] { return link(file.name.c_str(), to.c_str()); }) == 0;
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
    const uint32_t found = finish_crc32c(read_range(wanted.pieces[p].offset, bytes, tensor), bytes);
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
      const uint32_t found = finish_crc32c(part.sum, part.all);
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
      write_checksum(file, p, bytes == 0 ? 0 : finish_crc32c(part->second.sum, bytes));
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
