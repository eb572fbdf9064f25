// Renders the step of a run as a section of pictures.
#pragma once

#include <string>

#include "report/step_picture.h"

namespace tpplan {

// The steps of a plan and of the one that it is compared with. Each is nullptr if it is not known.
struct StepPictures {
  const StepPicture* now = nullptr;
  const StepPicture* before = nullptr;
};

// Returns the section: the step over time, its memory, one layer, the mesh, the terms. Two plans are side by side, with
// the same axes. @pre `pictures.now` is set
[[nodiscard]] std::string pictures_html(const StepPictures& pictures);

}  // namespace tpplan
