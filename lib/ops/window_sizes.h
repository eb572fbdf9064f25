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
void picture_sizes(const OpCall& call, const Sizes& x, Sizes& out);

}  // namespace tpplan
