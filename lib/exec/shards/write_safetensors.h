// The header of a safetensors file that is about to be written (huggingface/safetensors README.md, "Format").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/dtype.h"
#include "weights/safetensors_header.h"

namespace tpplan {

// A tensor to write: `source` is the caller's number for it.
struct WriteEntry {
  std::string_view name;
  DType dtype = 0;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  std::vector<uint64_t> saved_offsets;  // of a piece in its tensor
  size_t source = 0;
  uint64_t offset = 0;  // in the file; lay_out sets it
};

// Orders the entries as the reference writer does (wide types first, then by name), gives each its offset in the file,
// and returns the bytes that stand before the first: length and header, padded with spaces to 8. `are_pieces`: with the
// metadata of torch's distributed checkpoint. Throws TP8033 for a dtype that the format lacks, and when the header
// would pass the format's limit.
[[nodiscard]] std::string lay_out(std::vector<WriteEntry>& entries, bool are_pieces);

}  // namespace tpplan
