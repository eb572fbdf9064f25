// Open weight files, and where the bytes of each tensor of a manifest are in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "diagnostics/fault.h"
#include "exec/shards/byte_boxes.h"
#include "exec/shards/shard_folder.h"
#include "weights/weight_files.h"

namespace tpplan {

// A box of a tensor that is row major at `offset` of a file: contiguous, or inside a buffer of shape `sizes` in which
// it begins at index `at` (a part of a fused tensor).
struct StoredBox {
  uint32_t file = 0;  // into WeightFiles::files
  uint64_t offset = 0;
  Box box;
  std::vector<uint64_t> at = {}, sizes = {};
  std::optional<uint32_t> sum = {};  // its CRC-32C in the file (exec/shards/box_sums.h)
};

// The stored boxes of a manifest tensor: one box, or the boxes of a folder of shards, which tile it. Empty if the
// tensor is missing.
struct SourceTensor {
  std::string_view
      name;         // the stored name: its own, that of a tied tensor, or the first of those that it is fused from
  DType dtype = 0;  // the stored dtype: that of the manifest unless it is cast
  std::vector<StoredBox> pieces;
};

struct WeightSource {
  WeightFiles weights;  // the files, open, and their headers
  std::vector<SourceTensor>
      tensors;  // by index in ShardStore::shards; a tied name has its own stored tensor or that of its group
  std::vector<bool> missing;  // buffers that are not stored; they stay unchanged
  bool is_folder_of_shards = false;
  std::vector<SavedOffsets> offsets;        // by file, of a folder of shards
  std::vector<std::vector<uint32_t>> sums;  // by file: its checksums, by tensor; empty if it has none
  std::vector<Fault> findings;              // errors and warnings
};

}  // namespace tpplan
