// The files that a rank writes in `save` and `reshard`: their names, heads, and the offset of each box.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/shards/byte_boxes.h"
#include "exec/shards/shard_store.h"

namespace tpplan {

// A box of a shard, stored without gaps at `offset` of a file.
struct FileBox {
  size_t shard = 0;  // into ShardStore::shards
  HeldBox held;      // its place in the shard's memory
  uint64_t offset = 0;
};

struct ShardFile {
  std::string name;
  std::string head;             // length and header, before the first box
  std::vector<FileBox> pieces;  // by offset
  size_t sums_at = 0;           // position in `head` of the checksums of the boxes, which are adjacent
};

// Writes the checksum of box `piece` into the head. Checksums that are not known yet are zeros there.
void write_checksum(ShardFile& file, size_t piece, uint32_t sum);

// Returns the checksums in `head`, by box, if it is the head of `file` except for the checksums; else nullopt.
[[nodiscard]] std::optional<std::vector<uint32_t>> checksums_in_head(const ShardFile& file, std::string_view head);

// Returns the boxes of a shard that its rank writes; none if another rank is their first holder.
[[nodiscard]] std::vector<HeldBox> written_boxes(const ShardStore& store, const Shard& shard);

// Returns the files of the store's rank. File i has box i of every shard, because a file can have a name only once;
// only shards with several intervals have several boxes. Tensors in `omitted` (by index in ShardStore::shards) are
// omitted. Throws TP8033 if safetensors does not have the dtype.
[[nodiscard]] std::vector<ShardFile> list_shard_files(const ShardStore& store, const std::vector<bool>& omitted);

}  // namespace tpplan
