// Whether ranks were given the same weights: what each says of its own before the first step.
#pragma once

#include <string>

#include "exec/shards/weight_source.h"

namespace tpplan {

// A line: how many files and bytes, a hash of their headers, and one of blocks that are sampled all over them: some
// bytes of every tensor. The same for copies under other names; another for a checkpoint of another step. Throws what
// read_exactly throws.
[[nodiscard]] std::string weights_identity(const WeightSource& source);

}  // namespace tpplan
