// Numbers of windows along each dim, for the sizes of convolutions, pools and interpolation.
#pragma once

#include "ops/op_row.h"

namespace tpplan {

void convolution_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void transposed_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void pool_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void adaptive_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void interpolate_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void column_sizes(const OpCall& call, const Sizes& x, Sizes& out);
// Returns the number of windows in an image of shape `image` on a rank. The kernel_size is the argument at
// `position`, followed by dilation, padding and stride. -1 if a number is no size.
[[nodiscard]] int64_t count_windows(const OpCall& call, size_t position, const int64_t (&image)[2], size_t rank);
void image_sizes(const OpCall& call, const Sizes& x, Sizes& out);

}  // namespace tpplan
