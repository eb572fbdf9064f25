// The header of a safetensors file: which tensors it holds, and where. The weights themselves are never read.
// The format: huggingface/safetensors README.md ("Format") and safetensors/src/tensor.rs (0.8).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "sharding/dtype.h"

namespace tpplan {

// One tensor. Bytes [begin, end) count from SafetensorsHeader::data_begin; little endian, row major.
struct WeightTensor {
  std::string_view name;  // points into the header
  uint64_t begin = 0, end = 0;
  uint64_t sizes_begin = 0;  // into SafetensorsHeader::sizes
  uint64_t offset = 0;       // place of the name in the header
  uint32_t ndim = 0;
  DType dtype = 0;
};

struct SafetensorsHeader {
  SourceFile source;  // the file's name, and the JSON text of its header: places count from the header's first byte
  uint64_t data_begin = 0;  // first byte of the weights in the file
  uint64_t file_bytes = 0;
  std::vector<WeightTensor> tensors;  // in the header's order
  std::vector<uint64_t> sizes;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::deque<std::string> strings;  // text that does not stand in the header as it is
};

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr uint64_t kMaxHeaderText =
    uint64_t{16} * 1024 * 1024;  // a name, or a text of the metadata, which may say something of every tensor
inline constexpr uint64_t kMaxHeaderBytesTogether = uint64_t{2} * 1024 * 1024 * 1024;  // of all files of a checkpoint

[[nodiscard]] std::span<const uint64_t> shape_of(const SafetensorsHeader& header, const WeightTensor& tensor);

// Reads the header of the file at `path`, at most `max_bytes` of it, and proves it: each tensor takes the bytes that
// its type and shape say, and together they fill the file without holes and overlaps. Reports every fault
// (TP6001-TP6004 and those of JSON, places in Source::Model); false after any error. Refuses what the Python package
// safetensors refuses, and more: a header that does not begin with `{`, a name or key that stands twice, an entry
// written as an array, values nested deeper than 64 levels, more than 2^20 tensors.
[[nodiscard]] bool read_safetensors_header(const std::string& path, SafetensorsHeader& header, Diagnostics& diagnostics,
                                           uint64_t max_bytes = kMaxHeaderBytes);

}  // namespace tpplan
