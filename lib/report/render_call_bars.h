// Draws the collectives of a step as bars: the bytes that a rank sends for each kind of layer and each mesh axis.
#pragma once

#include <string>

#include "cost/measure_collectives.h"

namespace tpplan {

// Returns one bar per group of layers and axis, summed over the layers, with separate forward and backward parts. Empty
// if no rank sends anything.
[[nodiscard]] std::string call_bars_html(const CollectiveMeasure& measure, const Mesh& mesh);

}  // namespace tpplan
