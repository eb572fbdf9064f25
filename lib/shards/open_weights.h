// Weights on disk -> for each tensor of a manifest where its bytes stand.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/fault.h"
#include "manifest/manifest.h"
#include "shards/byte_boxes.h"
#include "shards/shard_folder.h"
#include "weights/weight_files.h"

namespace tpplan {

// A box of a tensor that stands row major at `offset` of a file: without gaps, or within a block of `sizes` in which it
// begins `at` (a part of a fused tensor).
struct SourcePiece {
  uint32_t file = 0;  // into WeightFiles::files
  uint64_t offset = 0;
  Box box;
  std::vector<uint64_t> at = {}, sizes = {};
  std::optional<uint32_t> sum = {};  // the CRC-32C that the file keeps of it (shards/piece_sums.h)
};

// Where a tensor of the manifest stands: one piece, or the pieces of a folder of shards, which tile it. None: it is
// missing.
struct SourceTensor {
  std::string_view
      name;         // that it is stored under: its own, or one that is tied to it, or the first that it is made of
  DType dtype = 0;  // that it is stored in: the manifest's, where nothing is cast
  std::vector<SourcePiece> pieces;
};

struct WeightSource {
  WeightFiles weights;  // the files, open, and their headers
  std::vector<SourceTensor>
      tensors;  // as ShardStore::shards counts; tied names each with what is stored under them, or the group's
  std::vector<bool> missing;  // buffers that are not stored: left as they are
  bool is_folder_of_shards = false;
  std::vector<SavedOffsets> offsets;  // one a file, of a folder of shards
  std::vector<std::vector<uint32_t>>
      sums;                     // one a file: the checksums that it keeps, by tensor; empty where it keeps none
  std::vector<Fault> findings;  // errors and warnings
};

// Opens the files that choose_weights finds at `path`, each once, and reads their headers; what is wrong with these
// stands in weights.diagnostics. False after any error; throws TP8020 and TP8021 for a folder that cannot be used.
[[nodiscard]] bool open_files(const std::string& path, WeightSource& source);

// What the manifest calls a tensor that is stored under another name; nothing for one that is left out.
using Rename = std::function<std::optional<std::string>(std::string_view stored)>;

// `fused` is `parts` one behind the other in one dim: of each all of it, or `groups` times the next piece of each, as
// where the heads of a group stand together. Names are whole atoms of paths.
struct FuseRule {
  std::string fused;
  std::vector<std::string> parts;
  uint64_t groups = 1;
};

// What weights may have otherwise than the manifest.
struct PlaceOptions {
  Rename rename;
  std::vector<FuseRule> fuse;  // the weights have the fused and the manifest its parts, or the other way round
  bool cast = false;           // types of floating point (can_cast)
};

// Opens the files and finds the manifest's tensors in them (place_tensors). All findings together stand in `findings`;
// those of headers and the index in weights.diagnostics. False after any error.
[[nodiscard]] bool open_weights(const std::string& path, const Manifest& manifest, WeightSource& source,
                                const PlaceOptions& options = {});

}  // namespace tpplan
