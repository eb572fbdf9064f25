// Weights on disk -> for each tensor of a manifest where its bytes stand.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "diagnostics/fault.h"
#include "manifest/manifest.h"
#include "shards/byte_boxes.h"
#include "shards/shard_folder.h"
#include "weights/weight_files.h"

namespace tpplan {

// A file of weights, open for reading, as it was when its header was read.
struct SourceFileHandle {
  std::string path;
  std::shared_ptr<int> fd;  // closes it
  struct stat identity {};
};

// A box of a tensor that stands row major and without gaps at `offset` of a file.
struct SourcePiece {
  uint32_t file = 0;  // into WeightSource::files
  uint64_t offset = 0;
  Box box;
};

// Where a tensor of the manifest stands: one piece, or the pieces of a folder of shards, which tile it. None: it is
// missing.
struct SourceTensor {
  std::string_view name;  // that it is stored under: its own, or one that is tied to it
  std::vector<SourcePiece> pieces;
};

struct WeightSource {
  WeightFiles weights;  // the headers
  std::vector<SourceFileHandle> files;
  std::vector<SourceTensor>
      tensors;  // as ShardStore::shards counts; tied names each with what is stored under them, or the group's
  std::vector<bool> missing;  // buffers that are not stored: left as they are
  bool is_folder_of_shards = false;
  std::vector<SavedOffsets> offsets;  // one a file, of a folder of shards
  std::vector<Fault> findings;        // errors and warnings
};

// Opens a safetensors file, an index (`.json`), or a folder that holds model.safetensors.index.json, model.safetensors,
// a single safetensors file, or shards as `save` and torch's distributed checkpoint write them. Every tensor of the
// manifest is found under its name or one that is tied to it, with the manifest's shape and dtype. All findings
// together stand in `findings`; those of headers and the index in weights.findings. False after any error.
[[nodiscard]] bool open_weights(const std::string& path, const Manifest& manifest, WeightSource& source);

// Throws TP8028 when a file is no longer what it was at opening.
void check_unchanged(const WeightSource& source);

// Reads exactly `bytes` bytes at `offset`; throws TP8028 and TP8029 with file, tensor and offset when they are not
// there.
void read_exactly(const SourceFileHandle& file, uint64_t offset, void* to, uint64_t bytes, std::string_view tensor);

}  // namespace tpplan
