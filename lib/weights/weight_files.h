// A file of weights, or all the shards of an index, as one set of tensors.
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
  SourceFile index{.id = kNoFile};          // keeps that without one
  std::vector<InputFile> files;             // in the order in which the index names them first
  std::deque<WeightsHeader> headers;        // of each, read from that very file
  std::vector<WeightPlace> tensors;         // each name once
  Diagnostics diagnostics;                  // what was found in them
  FileId last_id = kNoFile;                 // of the file that was opened last
  uint64_t left = kMaxHeaderBytesTogether;  // that may still be read of headers
};

// The texts that findings about them point into.
[[nodiscard]] std::vector<const SourceFile*> texts_of(const WeightFiles& files);

inline constexpr uint64_t kMaxIndexBytes = uint64_t{32} * 1024 * 1024;

// Whether the files stay open behind their headers, for who reads the weights from them.
enum class AfterHeader : uint8_t { Close, StayOpen };

// Opens the file at `path`, which people know as `name`, and reads its header by the format of its name; false after
// reporting why that cannot be done.
[[nodiscard]] bool add_weight_file(WeightFiles& files, const std::string& path, const std::string& name,
                                   AfterHeader after);

// Reads the headers of `path`: an index of shards where its name ends with `.json` (model.safetensors.index.json), else
// a file of weights. An index names files of its own directory, by plain names: links that lead out are refused, but
// for those of a Hugging Face cache, from `snapshots/REVISION` into the `blobs` beside `snapshots`. Index and shards
// agree: each named tensor stands in the shard that is named for it, and in no other. False after any error.
[[nodiscard]] bool read_weight_files(const std::string& path, WeightFiles& files,
                                     AfterHeader after = AfterHeader::Close);

}  // namespace tpplan
