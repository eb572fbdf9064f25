// Random values on the CPU: in blocks, each pass over which the compiler can vectorise.
#pragma once

#include "device/draw.h"

namespace tpplan {

// Writes the box's values at `to`, with up to `threads` threads. What draw_element says of each, to the bit.
void draw_on_host(void* to, const DrawBox& box, int threads);

}  // namespace tpplan
