// Gradients of norms, which no product stands for: what their boundaries leave open.
#pragma once

#include <optional>

#include "diagnostics/fault.h"
#include "manifest/manifest.h"

namespace tpplan {

// The first norm whose own rule gives it its input in pieces over an axis, while every rank along it holds the whole
// weight, of whose gradient each has then a term, and nothing sums them.
[[nodiscard]] std::optional<Fault> find_open_norm(const Manifest& manifest);

}  // namespace tpplan
