// The formats of files of weights, a row each.
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
  std::string_view extension;  // of its files' names, ".safetensors"; an index's name ends with it and ".index.json"
  // Reads at most `max_bytes` of what the open file says of itself, and proves it; false after reporting what is wrong.
  bool (*read_header)(const InputFile& file, WeightsHeader& header, Diagnostics& diagnostics, uint64_t max_bytes);
};

[[nodiscard]] std::span<const WeightFormat> weight_formats();

// By the name's extension; the first of all for a name that has none of theirs.
const WeightFormat& weight_format_of(std::string_view name);

}  // namespace tpplan
