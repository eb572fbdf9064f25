// One operation that is run on DTensors: its operands as torch brings them to layouts that fit.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "walk/walk_state.h"

namespace tpplan {

struct DtensorRun {
  Walk& walk;
  const GraphNode& node;
  std::string_view name;  // of the op, without a trailing `_`
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
// Redistributes a DTensor, with the collectives that it takes. A plain operand stays.
void bring(DtensorRun& run, size_t operand, std::span<const Placement> to);
// True when what the ranks hold is what the DTensor claims.
[[nodiscard]] bool is_as_claimed(DtensorRun& run, size_t operand);

// What the op's rule makes of operands in these layouts, as if they were plain.
[[nodiscard]] OpResult run_on(DtensorRun& run, std::span<const SpreadId> layouts);
// By operand: what ranks hold, and what they would hold if the claims were true.
[[nodiscard]] std::vector<SpreadId> held_layouts(DtensorRun& run);
[[nodiscard]] std::vector<SpreadId> claimed_layouts(DtensorRun& run);
// The placements that a layout stands for; false where none do.
[[nodiscard]] bool claim_for(const Walk& walk, const Spread& layout, Claim& claim);

}  // namespace tpplan
