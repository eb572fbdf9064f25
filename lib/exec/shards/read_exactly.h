// Reads bytes of weights from open files.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/input_file.h"
#include "exec/shards/weight_source.h"

namespace tpplan {

// Throws TP8028 if a file changed since it was opened.
void check_unchanged(const WeightSource& source);

// Reads exactly `bytes` bytes at `offset`. Throws TP8028 or TP8029 with file, tensor and offset if it cannot.
void read_exactly(const InputFile& file, uint64_t offset, void* to, uint64_t bytes, std::string_view tensor);

}  // namespace tpplan
