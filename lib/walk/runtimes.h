// The runtimes that can run a plan: one row each.
#pragma once

#include <span>

#include "walk/state/runtime_row.h"

namespace tpplan {

[[nodiscard]] std::span<const RuntimeRow> runtimes();
[[nodiscard]] const RuntimeRow& runtime_row(PlanRuntime runtime);

}  // namespace tpplan
