// A weight file, or all shards of an index, as one set of tensors.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "weights/weights_header.h"

namespace tpplan {

// A tensor of one of the files.
struct WeightPlace {
  uint32_t file = 0;    // into WeightFiles::headers
  uint32_t tensor = 0;  // into its tensors
};

struct WeightFiles {
  SourceFile index{.id = kNoFile};          // kNoFile if there is no index
  std::vector<InputFile> files;             // in the order in which the index names them first
  std::deque<WeightsHeader> headers;        // by file
  std::vector<WeightPlace> tensors;         // each name once
  Diagnostics diagnostics;                  // about these files
  FileId last_id = kNoFile;                 // of the file that was opened last
  uint64_t left = kMaxHeaderBytesTogether;  // remaining budget for headers
};

// Returns the files into which diagnostics about them point.
[[nodiscard]] std::vector<const SourceFile*> source_files_of(const WeightFiles& files);

inline constexpr uint64_t kMaxIndexBytes = uint64_t{32} * 1024 * 1024;

// StayOpen keeps the files open after their headers are read, for reading the weights.
enum class AfterHeader : uint8_t { Close, StayOpen };

// Opens the file at `path`, whose name in messages is `name`, and reads its header in the format of its extension.
// Returns false after reporting an error.
[[nodiscard]] bool add_weight_file(WeightFiles& files, const std::string& path, const std::string& name,
                                   AfterHeader after);

// Reads the headers of `path`: an index of shards if its name ends with `.json` (model.safetensors.index.json), else a
// weight file. An index names files of its directory by plain names. Rejects links that lead out of it, except those of
// a Hugging Face cache, from `snapshots/REVISION` into the `blobs` next to `snapshots`. Checks that each named tensor
// is in the shard that the index names, and in no other. Returns false after any error.
[[nodiscard]] bool read_weight_files(const std::string& path, WeightFiles& files,
                                     AfterHeader after = AfterHeader::Close);

}  // namespace tpplan
