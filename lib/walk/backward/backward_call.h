// An operation in the backward pass whose DTensors are as declared, and the redistributions that torch makes for it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "walk/dtensor/dtensor_strategies.h"
#include "walk/state/walk_state.h"

namespace tpplan {

// One operand and one result of the operation, with the gradient of the result.
struct BackwardCall {
  Backward& b;
  const TapeEntry& entry;
  OpId op = OpId::Unknown;
  std::vector<SlotId> ins;
  SlotId result = 0;
  size_t target = 0;
  Grad grad;
};

[[nodiscard]] std::vector<int64_t> sizes_of(const Walk& walk, SlotId slot);
// Returns the layout of a tensor with these placements. A partial one has the global shape on every rank.
[[nodiscard]] ValueLayoutId declared_layout_of(Walk& walk, std::span<const int64_t> shape,
                                               const DeclaredPlacements& declared);
[[nodiscard]] ValueLayoutId declared_layout_of(Walk& walk, SlotId slot, const DeclaredPlacements& declared);

// Redistributes the gradient of the result.
void redistribute_incoming_grad(BackwardCall& c, const DeclaredPlacements& to);
// Lists the calls that redistribute a tensor of this shape, which has the dtype of the slot.
void redistribute_intermediate(BackwardCall& c, SlotId slot, std::span<const int64_t> shape, DeclaredPlacements at,
                               const DeclaredPlacements& to);
// Lists the calls that redistribute an operand saved for backward.
void redistribute_saved(BackwardCall& c, SlotId saved, const DeclaredPlacements& to);

[[nodiscard]] OperandSpec operand_spec(const Walk& walk, SlotId slot, const Placement& at);
// True if the strategy makes an operand partial that is not.
[[nodiscard]] bool makes_partial(const Strategy& strategy, std::span<const OperandSpec> specs);

// Returns the placements of a gradient after its sum over the dims along which the operand is broadcast.
[[nodiscard]] DeclaredPlacements reduced_placements(const BackwardCall& c, DeclaredPlacements declared);

}  // namespace tpplan
