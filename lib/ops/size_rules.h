// Size rules of operations whose layout rule takes a size from the traced result.
#pragma once

#include "ops/window_sizes.h"

namespace tpplan {

void pad_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void topk_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void diff_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void unfold_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void glu_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void arange_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void histc_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void fft_sizes(const OpCall& call, const Sizes& x, Sizes& out);
void stft_sizes(const OpCall& call, const Sizes& x, Sizes& out);
// For a size that depends on the data: keeps the traced one.
void use_traced_sizes(const OpCall& call, const Sizes& x, Sizes& out);

}  // namespace tpplan
