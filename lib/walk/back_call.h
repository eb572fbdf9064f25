// One operation on the way back, where ranks hold what DTensors claim: what torch redistributes there.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "walk/dtensor_ways.h"
#include "walk/grad.h"

namespace tpplan {

// One operand and one result of it, and the result's gradient.
struct BackCall {
  Backward& b;
  const TapeEntry& entry;
  std::string_view op;
  std::vector<SlotId> ins;
  SlotId result = 0;
  size_t target = 0;
  Grad grad;
};

[[nodiscard]] std::vector<int64_t> sizes_of(const Walk& walk, SlotId slot);
// What ranks hold of a tensor that is placed so; an open sum is as large as the whole.
[[nodiscard]] SpreadId pieces_of(Walk& walk, std::span<const int64_t> shape, const Claim& claim);
[[nodiscard]] SpreadId pieces_of(Walk& walk, SlotId slot, const Claim& claim);

// Brings the result's gradient to a layout.
void bring_grad(BackCall& c, const Claim& to);
// The calls that bring a tensor of these sizes, of the slot's type, from one layout to another.
void bring_made(BackCall& c, SlotId slot, std::span<const int64_t> shape, Claim at, const Claim& to);
// The same of what autograd kept of an operand.
void bring_kept(BackCall& c, SlotId kept, const Claim& to);

[[nodiscard]] Face face_of(const Walk& walk, SlotId slot, const Placement& at);
// Whether a tensor that is none would become an open sum.
[[nodiscard]] bool opens(const Way& way, std::span<const Face> faces);

// Placements of a gradient that is summed over the dims along which its operand is broadcast.
[[nodiscard]] Claim summed_claim(const BackCall& c, Claim claim);

}  // namespace tpplan
