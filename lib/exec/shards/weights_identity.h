// A fingerprint of weights, by which ranks check before the first step that they were given the same weights.
#pragma once

#include <string>

#include "exec/shards/weight_source.h"

namespace tpplan {

// Returns a line with the number of files, their bytes, a hash of their headers, and a hash of samples: 4 KiB of each
// tensor, or of about 1,024 tensors of a larger checkpoint. Copies with other file names have the same line;
// checkpoints of other training steps differ. Throws the errors of read_exactly.
[[nodiscard]] std::string weights_identity(const WeightSource& source);

}  // namespace tpplan
