// The gradients of values at module boundaries, as a walk of the operations finds them. Without a graph they follow
// from the module tree (infer_boundaries.h).
#pragma once

#include <span>
#include <string>

#include "resolve/infer/infer_boundaries.h"

namespace tpplan {

// A value at a module boundary that the walk has seen.
struct WalkedValue {
  ModuleId module = kNone;
  RuleId rule = kNoRule;
  bool is_output = false;
  int arg = 0;
  std::string kwarg;  // empty: positional
};

// What a boundary does with the gradient of one value.
struct WalkedGradient {
  WalkedValue value;
  GradientReduction sums = GradientReduction::None;
};

// The placement of a DTensor that differs from the layout that a rule declares for it. Torch uses the placement.
struct WalkedPlacement {
  WalkedValue value;
  Placement actual;
};

// Replaces the declared layouts in the table by the placements that the walk found, and recomputes the collectives.
void apply_walked_placements(const TpPlan& plan, std::span<const WalkedPlacement> placements, BoundaryTable& table);

// Replaces the gradients in the table by those that the walk found. A value without a walked gradient keeps its own.
void apply_walked_gradients(const TpPlan& plan, std::span<const WalkedGradient> gradients, BoundaryTable& table);

}  // namespace tpplan
