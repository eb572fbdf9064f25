#include "exec/shards/shard_files.h"

#include "exec/shards/box_sums.h"
#include "exec/shards/shard_folder.h"
#include "exec/shards/write_safetensors.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Converts sizes or indices of a box from bytes to elements, with the tensor's number of dims.
std::vector<uint64_t> in_elements(std::vector<uint64_t> bytes, const ParamLayout& layout) {
  if (layout.shape.empty()) return {};
  bytes.back() = bytes.back() * 8 / dtypes()[layout.dtype].bits;
  return bytes;
}

// Returns an empty box for a tensor without elements, so that the file has its name and shape.
HeldBox empty_box(const ParamLayout& layout) {
  const std::vector<uint64_t> sizes = byte_sizes(layout.shape, layout.dtype);
  return within({std::vector<uint64_t>(sizes.size()), sizes}, sizes);
}

// Returns the text before the checksums in a head. It is the first key, so that no tensor name can look like it.
const std::string& sums_key() {
  static const std::string key = "\"" + std::string(kSumsKey) + "\":\"";
  return key;
}

ShardFile lay_out_file(const ShardStore& store, std::vector<FileBox>&& pieces) {
  std::vector<WriteEntry> entries;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Shard& shard = store.shards[pieces[i].shard];
    const HeldBox whole = packed(pieces[i].held.box);
    entries.push_back({.name = shard.path,
                       .dtype = shard.layout->dtype,
                       .shape = in_elements(whole.sizes, *shard.layout),
                       .bytes = elements_in(whole.box),
                       .saved_offsets = in_elements(whole.box.begin, *shard.layout),
                       .source = i});
  }
  ShardFile file{.head = lay_out_entries(entries, true)};
  for (const WriteEntry& entry : entries) {
    file.pieces.push_back(std::move(pieces[entry.source]));
    file.pieces.back().offset = entry.offset;
  }
  file.sums_at = file.head.find(sums_key()) + sums_key().size();
  return file;
}

}  // namespace

void write_checksum(ShardFile& file, size_t piece, uint32_t sum) {
  file.head.replace(file.sums_at + piece * kSumDigits, kSumDigits, checksum_text(sum));
}

std::optional<std::vector<uint32_t>> checksums_in_head(const ShardFile& file, std::string_view head) {
  const size_t digits = file.pieces.size() * kSumDigits, behind = file.sums_at + digits;
  const std::string_view expected = file.head;
  if (head.size() != expected.size() || head.substr(0, file.sums_at) != expected.substr(0, file.sums_at) ||
      head.substr(behind) != expected.substr(behind))
    return std::nullopt;
  return read_sums(head.substr(file.sums_at, digits), file.pieces.size());
}

std::vector<HeldBox> written_boxes(const ShardStore& store, const Shard& shard) {
  const Mesh& mesh = store.manifest->mesh;
  if (!is_writing_rank(*shard.layout, mesh, coordinate_of(mesh, store.rank))) return {};
  return held_boxes(shard.layout->shape, shard.layout->dtype, shard.slice);
}

std::vector<ShardFile> list_shard_files(const ShardStore& store, const std::vector<bool>& omitted) {
  std::vector<std::vector<FileBox>> pieces;
  for (size_t i = 0; i < store.shards.size(); ++i) {
    const Shard& shard = store.shards[i];
    if (i < omitted.size() && omitted[i]) continue;
    std::vector<HeldBox> boxes = written_boxes(store, shard);
    if (store.rank == 0 && elements_of(shard.layout->shape) == 0) boxes = {empty_box(*shard.layout)};
    if (boxes.size() > pieces.size()) pieces.resize(boxes.size());
    for (size_t run = 0; run < boxes.size(); ++run) pieces[run].push_back({i, std::move(boxes[run])});
  }
  std::vector<ShardFile> files;
  for (size_t i = 0; i < pieces.size(); ++i) {
    files.push_back(lay_out_file(store, std::move(pieces[i])));
    files.back().name = shard_file_name(store.rank, i, pieces.size());
  }
  return files;
}

}  // namespace tpplan
