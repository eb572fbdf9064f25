// Lists what a layer runs, in order, with the collectives where they happen and their bytes.
#pragma once

#include <string>

#include "report/step_picture.h"

namespace tpplan {

// Returns the forward pass of the most frequent layer as a row of boxes, and its backward pass folded. Empty without
// layers.
[[nodiscard]] std::string flow_html(const StepPicture& picture);

}  // namespace tpplan
