#include "exec/shards/saved_source.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/keyed_hash.h"
#include "exec/shards/choose_weights.h"
#include "exec/shards/open_weights.h"
#include "exec/shards/shard_folder.h"
#include "exec/shards/shard_store.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

// Returns the names of the ranks' files: for each rank as many as the largest number of boxes that a tensor has there.
std::vector<std::string> names_of(const SavedFolder& folder) {
  const Manifest& manifest = *folder.manifest;
  std::vector<bool> used(manifest.layouts.size());
  for (size_t i = 0; i < tensor_count(manifest); ++i) {
    if (!folder.missing[i]) used[tensor_of(manifest, i).layout] = true;
  }
  std::vector<uint32_t> parts(static_cast<size_t>(device_count(manifest.mesh)));
  parts[0] = 1;  // it has the tensors without elements
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    for (size_t b = 0; b < folder.boxes[i].ranks.size(); ++b) {
      uint32_t& most = parts[static_cast<size_t>(folder.boxes[i].ranks[b])];
      most = std::max(most, folder.boxes[i].runs[b] + 1);
    }
  }
  std::vector<std::string> names;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    for (uint32_t part = 0; part < parts[rank]; ++part)
      names.push_back(shard_file_name(static_cast<int>(rank), part, parts[rank]));
  }
  std::ranges::sort(names);
  return names;
}

Fault changed(const InputFile& file) {
  return {.code = Code::WeightsChanged,
          .message = "the file changed while it was read",
          .help = "run again when no process writes the file",
          .place = file.name};
}

// Returns the error of a file whose head differs from the one that its manifest determines: reads all headers to find
// it.
Fault mismatch_error(const SavedFolder& folder, const std::string& file) {
  WeightSource source;
  if (!open_weights(folder.path, *folder.manifest, source)) {
    for (const Fault& finding : source.findings) {
      if (exit_status(finding) != 0) return finding;
    }
    for (const Diagnostic& finding : source.weights.diagnostics.list) {
      if (finding.span.file == source.weights.last_id)
        return {.code = finding.code, .message = finding.message, .place = file};
    }
  }
  return {.code = Code::InvalidShardFolder,
          .message = "the header does not match the folder's manifest",
          .help = "copy the folder again, or save it again",
          .place = file};
}

void reopen(InputFile& file) {
  const struct stat before = file.identity;
  const std::string reason = open_input(file.name, file);
  if (!reason.empty()) throw Fault{.code = Code::WeightsUnreadable, .message = reason, .place = file.name};
  if (before.st_nlink == 0) return;  // it is open for the first time
  file.identity = before;
  if (!is_unchanged(file)) throw changed(file);
}

OpenShard read_shard(const SavedFolder& folder, int rank) {
  OpenShard shard;
  for (const ShardFile& expected : list_shard_files(describe_shards(*folder.manifest, rank), folder.missing)) {
    InputFile& file = shard.files.emplace_back();
    file.name = shard_path(folder.path, expected.name);
    reopen(file);
    const std::optional<std::vector<uint32_t>> kept = sums_of(file, expected);
    if (!kept) throw mismatch_error(folder, file.name);
    file.fd.reset();
    std::vector<uint64_t>& offsets = shard.offsets.emplace_back(tensor_count(*folder.manifest));
    std::vector<uint32_t>& sums = shard.sums.emplace_back(tensor_count(*folder.manifest));
    for (size_t p = 0; p < expected.pieces.size(); ++p) {
      offsets[expected.pieces[p].shard] = expected.pieces[p].offset;
      sums[expected.pieces[p].shard] = (*kept)[p];
    }
  }
  return shard;
}

// Fills `first.tensors`, by which ranks check that they see the same folder: the tensors of the first file.
void place_first(SavedFolder& folder) {
  const WeightsHeader& header = folder.first.weights.headers.front();
  for (const WeightTensor& tensor : header.tensors)
    folder.first.tensors.push_back(
        {.name = tensor.name,
         .dtype = tensor.dtype,
         .pieces = {
             {.file = 0, .offset = header.data_begin + tensor.begin, .box = {{0}, {tensor.end - tensor.begin}}}}});
}

// Returns the size in bytes of a file of shards: its head and all boxes.
uint64_t size_of_file(const ShardFile& file) {
  uint64_t end = file.head.size();
  for (const FileBox& piece : file.pieces) end = std::max(end, piece.offset + elements_in(piece.held.box));
  return end;
}

}  // namespace

std::optional<std::vector<uint32_t>> sums_of(const InputFile& file, const ShardFile& expected) {
  if (size_of(file) != size_of_file(expected)) return std::nullopt;
  const ReadResult head = read_part(file, 0, expected.head.size());
  return head.fault == ReadError::None ? checksums_in_head(expected, head.file.text) : std::nullopt;
}

bool find_saved_folder(const std::string& path, const Manifest& manifest, std::string_view shardings_sha256,
                       SavedFolder& folder) {
  const ChosenWeights chosen = choose_weights(path);
  if (!chosen.path.empty() || chosen.shards.empty() || read_note(path) != shardings_sha256) return false;
  folder.manifest = &manifest;
  folder.path = path;
  const std::string first = shard_path(path, chosen.shards.front());
  if (!add_weight_file(folder.first.weights, first, first, AfterHeader::StayOpen)) return false;
  TextMap<std::string_view, bool> stored;
  for (const WeightTensor& tensor : folder.first.weights.headers.front().tensors) stored[tensor.name] = true;
  folder.missing.resize(tensor_count(manifest));
  for (size_t i = 0; i < folder.missing.size(); ++i)
    folder.missing[i] = stored.find(path_of(manifest, tensor_of(manifest, i))) == stored.end();
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    if (folder.missing[i]) return false;
  }
  folder.boxes = list_rank_boxes(manifest);
  if (names_of(folder) != chosen.shards) return false;
  const std::vector<ShardFile> own = list_shard_files(describe_shards(manifest, 0), folder.missing);
  if (own.empty() || own.front().name != chosen.shards.front() ||
      !sums_of(folder.first.weights.files.front(), own.front()))
    return false;
  place_first(folder);
  return true;
}

const InputFile& open_shard(OpenShards& shards, int rank, uint32_t run) {
  auto [shard, added] = shards.of_rank.try_emplace(rank);
  if (added) shard->second = read_shard(*shards.folder, rank);
  InputFile& file = shard->second.files[run];
  if (file.fd != nullptr) return file;
  if (shards.open == shards.max_open) {
    check_unchanged(shards);
    for (auto& [number, other] : shards.of_rank) {
      for (InputFile& open : other.files) open.fd.reset();
    }
    shards.open = 0;
  }
  reopen(file);
  ++shards.open;
  return file;
}

WeightSource open_local_shards(const SavedFolder& folder, std::span<const int> ranks) {
  const Manifest& manifest = *folder.manifest;
  std::set<int64_t> holders;
  for (const int rank : ranks) {
    for (const ParamLayout& layout : manifest.layouts) {
      std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, rank);
      for (size_t axis = 0; axis < coordinate.size(); ++axis) {
        if (!uses_axis(layout.sharding.spec, static_cast<AxisId>(axis))) coordinate[axis] = 0;
      }
      holders.insert(rank_of(manifest.mesh, coordinate));
    }
  }
  WeightSource source{.missing = folder.missing, .is_folder_of_shards = true};
  for (size_t i = 0; i < tensor_count(manifest); ++i)
    source.tensors.push_back({.name = path_of(manifest, tensor_of(manifest, i)),
                              .dtype = layout_of(manifest, tensor_of(manifest, i)).dtype,
                              .pieces = {}});
  for (const int64_t rank : holders) {
    for (const ShardFile& expected :
         list_shard_files(describe_shards(manifest, static_cast<int>(rank)), folder.missing)) {
      const auto number = static_cast<uint32_t>(source.weights.files.size());
      InputFile& file = source.weights.files.emplace_back();
      file.name = shard_path(folder.path, expected.name);
      reopen(file);
      const std::optional<std::vector<uint32_t>> kept = sums_of(file, expected);
      if (!kept) throw mismatch_error(folder, file.name);
      for (size_t p = 0; p < expected.pieces.size(); ++p) {
        const FileBox& piece = expected.pieces[p];
        source.tensors[piece.shard].pieces.push_back(
            {.file = number, .offset = piece.offset, .box = piece.held.box, .sum = (*kept)[p]});
      }
    }
  }
  return source;
}

void check_unchanged(const OpenShards& shards) {
  for (const auto& [rank, shard] : shards.of_rank) {
    for (const InputFile& file : shard.files) {
      if (file.fd != nullptr && !is_unchanged(file)) throw changed(file);
    }
  }
}

}  // namespace tpplan
