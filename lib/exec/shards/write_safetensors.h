// Layout and header of a safetensors file to write (huggingface/safetensors README.md, "Format").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/dtype.h"
#include "weights/safetensors_header.h"

namespace tpplan {

// A tensor to write. `source`: an index of the caller, which lay_out_entries does not read.
struct WriteEntry {
  std::string_view name;
  DType dtype = 0;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  std::vector<uint64_t> saved_offsets;  // of a shard: its first index in the tensor
  size_t source = 0;
  uint64_t offset = 0;  // in the file; lay_out_entries sets it
};

// Orders the entries as the reference writer does (dtypes with more bits first, then by name) and sets the offset of
// each in the file. Returns the bytes before the first tensor: length and header, padded with spaces to a multiple of
// 8. `are_shards`: with the metadata of torch's distributed checkpoint. Throws TP8033 if the format does not have the
// dtype, or the header exceeds its limit.
[[nodiscard]] std::string lay_out_entries(std::vector<WriteEntry>& entries, bool are_shards);

}  // namespace tpplan
