// A safetensors file, or all the shards of an index, as one set of tensors.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "weights/safetensors_header.h"

namespace tpplan {

// What was found in one file; places in Source::Model are places in `*file`.
struct FileFindings {
  const SourceFile* file = nullptr;
  Diagnostics diagnostics;
};

// A tensor of one of the files.
struct WeightPlace {
  uint32_t file = 0;    // into WeightFiles::headers
  uint32_t tensor = 0;  // into its tensors
};

struct WeightFiles {
  SourceFile index;                       // empty without one
  std::deque<SafetensorsHeader> headers;  // one a file, in the order in which the index names them first
  std::vector<WeightPlace> tensors;       // each name once
  std::deque<FileFindings> findings;      // in the order in which the files were read
};

inline constexpr uint64_t kMaxIndexBytes = uint64_t{32} * 1024 * 1024;

// Reads the headers of `path`: an index of shards where its name ends with `.json` (model.safetensors.index.json), else
// a safetensors file. An index names files of its own directory, by plain names: links that lead out are refused, but
// for those of a Hugging Face cache, from `snapshots/REVISION` into the `blobs` beside `snapshots`. Index and shards
// agree: each named tensor stands in the shard that is named for it, and in no other. False after any error.
[[nodiscard]] bool read_weight_files(const std::string& path, WeightFiles& files);

}  // namespace tpplan
