// The formats of weight files, a row for each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/input_file.h"
#include "diagnostics/diagnostics.h"
#include "weights/weights_header.h"

namespace tpplan {

struct WeightFormat {
  std::string_view name;       // "safetensors"
  std::string_view extension;  // ".safetensors"; the name of an index ends with it and ".index.json"
  // Reads and checks at most `max_bytes` of the file's header. Returns false after reporting an error.
  bool (*read_header)(const InputFile& file, WeightsHeader& header, Diagnostics& diagnostics, uint64_t max_bytes);
};

[[nodiscard]] std::span<const WeightFormat> weight_formats();

// Returns the format of the name's extension; the first format for other extensions.
const WeightFormat& weight_format_of(std::string_view name);

}  // namespace tpplan
