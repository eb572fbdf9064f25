// The layout in which an operation computes: its tensors are resharded to it.
#pragma once

#include <optional>
#include <vector>

#include "programs/operation_rules.h"
#include "programs/program.h"
#include "programs/project_factors.h"

namespace tpplan::programs {

// How an operation computes: the shardings of its tensors around it, and what it sums.
struct OperationLayout {
  bool is_changed = false;        // some tensor differs from its value's sharding
  std::vector<FactorAxes> slots;  // parallel to the rule's
  AxisParts reduced;              // axes over which results are partial
};

// Axes of factors that are decided before the rest of a layout; nullopt: open.
using FactorPins = std::vector<std::optional<AxisParts>>;

// Returns the layout in which Shardy lets an operation compute, or with the axes of `pins`, by factor; empty: none. If
// `moves_axes` is true, axes of factors that must be replicated move to batch factors. @pre the operation has a rule.
[[nodiscard]] OperationLayout choose_layout(Program& program, const FactorRules& rules, OperationIndex operation,
                                            const FactorPins& pins = {}, bool moves_axes = true);

}  // namespace tpplan::programs
