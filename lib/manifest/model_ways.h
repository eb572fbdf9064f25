// In how many ways a plan could cut a model.
#pragma once

#include "manifest/manifest.h"

namespace tpplan {

// The product of the axes that are there to cut the model: all but data axes over which nothing of it is cut. What each
// rank holds ideally is the whole by this.
[[nodiscard]] int64_t model_ways(const Manifest& manifest);

}  // namespace tpplan
