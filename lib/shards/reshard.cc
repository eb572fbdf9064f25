#include "shards/reshard.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "shards/new_folder.h"
#include "shards/read_exactly.h"
#include "shards/shard_files.h"
#include "shards/shard_folder.h"
#include "shards/shard_store.h"

namespace tpplan {
namespace {

constexpr uint64_t kMinMove = 4096, kMaxMove = uint64_t{8} << 20;

// Where a box of a tensor goes.
struct Destination {
  size_t file = 0;  // into Files::names
  uint64_t offset = 0;
  Box box;
};

struct Files {
  std::vector<std::string> names, heads;
  std::vector<std::vector<Destination>> of_tensor;
};

Files list_destinations(const Manifest& after, const WeightSource& source) {
  Files files;
  files.of_tensor.resize(source.tensors.size());
  for (int rank = 0; rank < device_count(after.mesh); ++rank) {
    for (ShardFile& file : list_shard_files(describe_shards(after, rank), source.missing)) {
      for (FilePiece& piece : file.pieces)
        files.of_tensor[piece.shard].push_back({files.names.size(), piece.offset, std::move(piece.held.box)});
      files.names.push_back(std::move(file.name));
      files.heads.push_back(std::move(file.head));
    }
  }
  return files;
}

// A tensor as blocks of at most `limit` bytes: one index of the first dims, a run of the next, the others whole. What a
// piece has of such a block stands in one run in the piece. visit(block) for each.
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

struct Buffers {
  std::vector<char> block, run;
};

// Reads what the pieces have of a block into buffers.block.
uint64_t gather(const WeightSource& source, const SourceTensor& tensor, const Box& block, Buffers& buffers) {
  uint64_t read = 0;
  for (const SourcePiece& piece : tensor.pieces) {
    const Box both = intersection(piece.box, block);
    if (is_empty(both)) continue;
    const uint64_t bytes = elements_in(both), offset = piece.offset + offset_of(packed(piece.box), both.begin);
    read_exactly(source.weights.files[piece.file], offset, buffers.run.data(), bytes, tensor.name);
    for_each_run(packed(both), packed(block), both, [&](uint64_t from, uint64_t to, uint64_t count) {
      std::memcpy(buffers.block.data() + to, buffers.run.data() + from, count);
      return true;
    });
    read += bytes;
  }
  return read;
}

// Writes a block to all places that hold some of it.
uint64_t put(const std::string& folder, const Files& files, size_t tensor, const Box& block, Buffers& buffers,
             std::set<size_t>& touched) {
  uint64_t written = 0;
  for (const Destination& there : files.of_tensor[tensor]) {
    const Box both = intersection(there.box, block);
    if (is_empty(both)) continue;
    for_each_run(packed(block), packed(both), both, [&](uint64_t from, uint64_t to, uint64_t count) {
      std::memcpy(buffers.run.data() + to, buffers.block.data() + from, count);
      return true;
    });
    const OutputFile file = open_for_writing((std::filesystem::path(folder) / files.names[there.file]).string());
    write_at(file, buffers.run.data(), elements_in(both), there.offset + offset_of(packed(there.box), both.begin));
    written += elements_in(both);
    touched.insert(there.file);
  }
  return written;
}

}  // namespace

// Blocks are dealt out in turn, whichever ranks held or will hold them: all read and write about as much, and send each
// other nothing.
ReshardResult reshard(Comm& comm, const WeightSource& source, const Manifest& after, const std::string& manifest_sha256,
                      const std::string& path, uint64_t staging) {
  ReshardResult result;
  const Files files = list_destinations(after, source);
  const uint64_t limit = std::clamp(staging / 2, kMinMove, kMaxMove);
  FolderSteps steps;
  steps.prepare = [&](const std::string& folder) {
    for (size_t i = 0; i < files.names.size(); ++i)
      write_at(create_file((std::filesystem::path(folder) / files.names[i]).string()), files.heads[i].data(),
               files.heads[i].size(), 0);
  };
  steps.write = [&](const std::string& folder) {
    Buffers buffers{std::vector<char>(limit), std::vector<char>(limit)};
    std::set<size_t> touched;
    uint64_t number = 0;
    for (size_t t = 0; t < source.tensors.size(); ++t) {
      if (source.missing[t]) continue;
      const ParamLayout& layout = layout_of(after, tensor_of(after, t));
      for_each_block(byte_sizes(layout.shape, layout.dtype), limit, [&](const Box& block) {
        if (number++ % static_cast<uint64_t>(comm.world) != static_cast<uint64_t>(comm.rank)) return;
        result.read_bytes += gather(source, source.tensors[t], block, buffers);
        result.written_bytes += put(folder, files, t, block, buffers, touched);
      });
    }
    for (const size_t file : touched)
      sync_file(open_for_writing((std::filesystem::path(folder) / files.names[file]).string()));
    check_unchanged(source);
  };
  steps.finish = [&](const std::string& folder) { write_note(folder, manifest_sha256, after.mesh); };
  write_folder(comm, path, steps);
  return result;
}

}  // namespace tpplan
