// The weights themselves, from files that are open.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/input_file.h"
#include "shards/open_weights.h"

namespace tpplan {

// Throws TP8028 when a file is no longer what it was at opening.
void check_unchanged(const WeightSource& source);

// Reads exactly `bytes` bytes at `offset`; throws TP8028 and TP8029 with file, tensor and offset when they are not
// there.
void read_exactly(const InputFile& file, uint64_t offset, void* to, uint64_t bytes, std::string_view tensor);

}  // namespace tpplan
