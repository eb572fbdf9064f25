// Reads the header of a safetensors file, never its weights. The format: huggingface/safetensors README.md ("Format")
// and safetensors/src/tensor.rs (0.8).
#pragma once

#include <cstdint>

#include "base/input_file.h"
#include "diagnostics/diagnostics.h"
#include "weights/weights_header.h"

namespace tpplan {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr uint64_t kMaxHeaderText =
    uint64_t{16} * 1024 * 1024;  // of a name, or of a metadata text, which can have an entry for every tensor

// Reads the header of the open file, at most `max_bytes` of it, and checks it: each tensor has the bytes of its dtype
// and shape, and together they fill the file without gaps and overlaps. Reports every error (TP6001 to TP6004 and JSON
// errors, spans in header.source). Returns false after any error. Rejects everything that the Python package
// safetensors rejects, and also: a header that does not begin with `{`, duplicate names or keys, an entry written as an
// array, values nested deeper than 64 levels, more than 2^20 tensors.
[[nodiscard]] bool read_safetensors_header(const InputFile& file, WeightsHeader& header, Diagnostics& diagnostics,
                                           uint64_t max_bytes = kMaxHeaderBytes);

}  // namespace tpplan
