// One operation on DTensors, with the operands that torch redistributes for it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "walk/dtensor/dtensor_strategies.h"
#include "walk/state/walk_state.h"

namespace tpplan {

struct DtensorRun {
  Walk& walk;
  const GraphNode& node;
  std::string_view name;  // of the op, without a trailing `_`
  bool exact = false;     // the actual layout of every operand is the declared one
  RuleId rule = kNoRule;  // of the first DTensor
  std::vector<ValueId> values;
  std::vector<SlotId> slots;  // by operand, after its redistribution
  // Local sizes of the size arguments, for rules. The code itself reads sizes of the declared shape from a DTensor.
  std::vector<uint32_t> local_size_ids;
  // Its outputs: actual layouts of the results, and their declared placements.
  OpResult result;
  DeclaredPlacements declared;
};

// Returns the declared placements of an operand; replicated for a plain operand, which has one element.
[[nodiscard]] DeclaredPlacements declared_of(const DtensorRun& run, size_t operand);
[[nodiscard]] std::span<const int64_t> shape_of(const DtensorRun& run, size_t operand);
// Returns the declared shape of an operand, whatever its actual sizes are.
[[nodiscard]] std::vector<int64_t> declared_shape(const DtensorRun& run, size_t operand);
// Returns the declared shape of the first result, by the rule of the operation; the traced shape if the rule fails.
[[nodiscard]] std::vector<int64_t> declared_out_shape(DtensorRun& run);
// Returns the operands along one axis.
[[nodiscard]] std::vector<OperandSpec> operand_specs(const DtensorRun& run, size_t axis);

// Redistributes a DTensor operand, with its collectives. A plain operand is unchanged. A replicated value can become
// partial without a call: each rank divides it.
void redistribute_operand(DtensorRun& run, size_t operand, std::span<const Placement> to);
// Redistributes every operand as the strategy of each axis requires, and sets the declared placements of the result.
// Returns false after a crash if an axis has no strategy.
[[nodiscard]] bool redistribute_operands(DtensorRun& run, std::span<const std::optional<Strategy>> by_axis);
// True if the operand is a DTensor whose actual layout is the declared one.
[[nodiscard]] bool is_as_declared(DtensorRun& run, size_t operand);

// Computes the result for the current operands and declared placements. If all operands are as declared, so is the
// result; otherwise the rule of the operation computes its actual layout.
void compute_result(DtensorRun& run);

// Runs the rule of the operation on operands with these layouts, as if they were plain.
[[nodiscard]] OpResult run_rule_on(DtensorRun& run, std::span<const ValueLayoutId> layouts);
// Return by operand the actual layouts, and the layouts that the declared placements specify.
[[nodiscard]] std::vector<ValueLayoutId> actual_layouts(DtensorRun& run);
[[nodiscard]] std::vector<ValueLayoutId> declared_layouts(DtensorRun& run);
// Sets the placements that describe a layout. Returns false if none do.
[[nodiscard]] bool find_declared_placements(const Walk& walk, const ValueLayout& layout, DeclaredPlacements& declared);
// Returns the error of the rule for operands of the declared sizes; empty if they fit.
[[nodiscard]] std::string declared_size_error(DtensorRun& run);

}  // namespace tpplan
