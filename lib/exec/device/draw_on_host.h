// Random values on the CPU, in blocks with passes that the compiler vectorises.
#pragma once

#include "exec/device/draw.h"

namespace tpplan {

// Writes the box's values at `to` with up to `threads` threads, bit-identical to draw_element.
void draw_on_host(void* to, const DrawBox& box, int threads);

}  // namespace tpplan
