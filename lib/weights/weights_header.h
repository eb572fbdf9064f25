// The header of a weight file of any format: its tensors and their offsets.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/source_file.h"
#include "sharding/dtype.h"

namespace tpplan {

inline constexpr uint64_t kMaxHeaderBytesTogether = uint64_t{2} * 1024 * 1024 * 1024;  // of all files of a checkpoint

// One tensor. Bytes [begin, end) count from WeightsHeader::data_begin; little endian, row major.
struct WeightTensor {
  std::string_view name;  // points into the header
  uint64_t begin = 0, end = 0;
  uint64_t sizes_begin = 0;  // into WeightsHeader::sizes
  uint64_t offset = 0;       // of the name in the header
  uint32_t ndim = 0;
  DType dtype = 0;
};

struct WeightsHeader {
  SourceFile source;        // the file's name and the text of its header; spans count from the header's first byte
  uint64_t data_begin = 0;  // first byte of the weights in the file
  uint64_t file_bytes = 0;
  std::vector<WeightTensor> tensors;  // in the header's order
  std::vector<uint64_t> sizes;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::deque<std::string> strings;  // texts that are escaped in the header
};

[[nodiscard]] inline std::span<const uint64_t> shape_of(const WeightsHeader& header, const WeightTensor& tensor) {
  return {header.sizes.data() + tensor.sizes_begin, tensor.ndim};
}

}  // namespace tpplan
