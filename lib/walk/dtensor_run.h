// One operation that is run on DTensors: its operands as torch brings them to layouts that fit.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "walk/dtensor_ways.h"
#include "walk/walk_state.h"

namespace tpplan {

struct DtensorRun {
  Walk& walk;
  const GraphNode& node;
  std::string_view name;  // of the op, without a trailing `_`
  bool in_place = false;  // it had one
  bool exact = false;     // ranks hold of every operand what it claims
  RuleId rule = kNoRule;  // of the first DTensor
  std::vector<ValueId> values;
  std::vector<SlotId> slots;  // by operand: as the operation sees it
  // Sizes that the code asked a DTensor for are those that it claims; rules want those that ranks hold.
  std::vector<uint32_t> held_sizes;
  // What comes of it: what ranks hold of the results, and what they claim.
  OpResult result;
  Claim claim;
};

// What the operand claims; a plain one among DTensors has one element, and is whole.
[[nodiscard]] Claim claim_of(const DtensorRun& run, size_t operand);
[[nodiscard]] std::span<const int64_t> shape_of(const DtensorRun& run, size_t operand);
// The sizes that a DTensor claims to have, whatever ranks hold.
[[nodiscard]] std::vector<int64_t> claimed_shape(const DtensorRun& run, size_t operand);
// The same of the first result, by the op's rule. As recorded, where the rule has no answer.
[[nodiscard]] std::vector<int64_t> claimed_out_shape(DtensorRun& run);
// Operands along one axis.
[[nodiscard]] std::vector<Face> faces_of(const DtensorRun& run, size_t axis);

// Redistributes a DTensor, with the collectives that it takes. A plain operand stays. A whole value may become a term
// of an open sum, for which each rank divides it.
void bring(DtensorRun& run, size_t operand, std::span<const Placement> to);
// Brings every operand to where the way has it along each axis. False, with the run ended, where there is none.
[[nodiscard]] bool bring_all(DtensorRun& run, std::span<const std::optional<Way>> by_axis);
// True when what the ranks hold is what the DTensor claims.
[[nodiscard]] bool is_as_claimed(DtensorRun& run, size_t operand);

// The result, with the operands where they are and the claim as it stands: what is as it claims to be stays so, else it
// is what the op's rule makes of what ranks hold.
void settle(DtensorRun& run);

// What the op's rule makes of operands in these layouts, as if they were plain.
[[nodiscard]] OpResult run_on(DtensorRun& run, std::span<const SpreadId> layouts);
// By operand: what ranks hold, and what they would hold if the claims were true.
[[nodiscard]] std::vector<SpreadId> held_layouts(DtensorRun& run);
[[nodiscard]] std::vector<SpreadId> claimed_layouts(DtensorRun& run);
// The placements that a layout stands for; false where none do.
[[nodiscard]] bool claim_for(const Walk& walk, const Spread& layout, Claim& claim);
// The first error that sizes as they are claimed lead to; empty where they fit.
[[nodiscard]] std::string claimed_crash(DtensorRun& run);

}  // namespace tpplan
