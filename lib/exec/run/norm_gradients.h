// Norm gradients that are never reduced. The matmul tests do not cover norms.
#pragma once

#include <optional>

#include "diagnostics/fault.h"
#include "manifest/manifest.h"

namespace tpplan {

// Returns an error for the first norm whose rule shards its input over an axis along which its weight is replicated, if
// no entry of grad_reduce reduces the gradient over that axis: the gradient is then partial on each rank.
[[nodiscard]] std::optional<Fault> find_unreduced_norm(const Manifest& manifest);

}  // namespace tpplan
