// Which files a rank writes of its shards, and what stands where in them: the plan of `save` and `reshard`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/shards/byte_boxes.h"
#include "exec/shards/shard_store.h"

namespace tpplan {

// A box of a shard, which stands without gaps at `offset` of a file.
struct FileBox {
  size_t shard = 0;  // into ShardStore::shards
  HeldBox held;      // where it stands in the shard
  uint64_t offset = 0;
};

struct ShardFile {
  std::string name;
  std::string head;             // the bytes before the first piece
  std::vector<FileBox> pieces;  // by offset
  size_t sums_at = 0;           // in the head: where the checksums of the pieces stand, one after the other
};

// Puts the checksum of piece number `piece` into the head, which has zeros for those that are not known yet.
void put_sum(ShardFile& file, size_t piece, uint32_t sum);

// The checksums in a head that is that of the file but for them, by piece; nothing where it is another one.
[[nodiscard]] std::optional<std::vector<uint32_t>> sums_in_head(const ShardFile& file, std::string_view head);

// The boxes of a shard that its rank writes: none when another rank that holds them comes first.
[[nodiscard]] std::vector<HeldBox> written_boxes(const ShardStore& store, const Shard& shard);

// The files of a rank: the first has the first box of every shard, the next one the second boxes of those that have
// several runs (a file holds a name once), and so on. What is `left_out`, by number, is in none. Throws
// TP8033 where the format has no such type.
[[nodiscard]] std::vector<ShardFile> list_shard_files(const ShardStore& store, const std::vector<bool>& left_out);

}  // namespace tpplan
