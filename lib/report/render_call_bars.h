// The calls of a step as bars: what each kind of layer makes a rank send, over which axis.
#pragma once

#include <string>

#include "measure/measure_collectives.h"

namespace tpplan {

// A bar for each group of layers and axis, of all layers together, forward and backward apart. Empty where nothing is
// sent.
[[nodiscard]] std::string call_bars_html(const CollectiveMeasure& measure, const Mesh& mesh);

}  // namespace tpplan
