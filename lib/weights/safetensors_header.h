// The header of a safetensors file. The weights themselves are never read.
// The format: huggingface/safetensors README.md ("Format") and safetensors/src/tensor.rs (0.8).
#pragma once

#include <cstdint>

#include "base/input_file.h"
#include "diagnostics/diagnostics.h"
#include "weights/weights_header.h"

namespace tpplan {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr uint64_t kMaxHeaderText =
    uint64_t{16} * 1024 * 1024;  // a name, or a text of the metadata, which may say something of every tensor

// Reads the header of the open file, at most `max_bytes` of it, and proves it: each tensor takes the bytes that its
// type and shape say, and together they fill the file without holes and overlaps. Reports every fault (TP6001-TP6004
// and those of JSON, places in header.source); false after any error. Refuses what the Python package safetensors
// refuses, and more: a header that does not begin with `{`, a name or key that stands twice, an entry written as an
// array, values nested deeper than 64 levels, more than 2^20 tensors.
[[nodiscard]] bool read_safetensors_header(const InputFile& file, WeightsHeader& header, Diagnostics& diagnostics,
                                           uint64_t max_bytes = kMaxHeaderBytes);

}  // namespace tpplan
