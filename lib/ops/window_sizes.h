// How many windows fit along each dim: sizes of what convolutions, pools and interpolation make.
#pragma once

#include "ops/size_rows.h"

namespace tpplan {

void convolution_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void transposed_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void pool_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void adaptive_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void interpolate_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void column_sizes(const OpCall& call, const Sizes& x, Sizes& out);
// In how many places of a picture of so many rows and columns windows lie on a rank: those whose kernel_size is the
// argument at `position`, with dilation, padding and stride behind it. -1 where a number is no size.
[[nodiscard]] int64_t window_places(const OpCall& call, size_t position, const int64_t (&picture)[2], size_t rank);
void picture_sizes(const OpCall& call, const Sizes& x, Sizes& out);

}  // namespace tpplan
