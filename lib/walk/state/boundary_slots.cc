#include "walk/state/boundary_slots.h"

#include <algorithm>
#include <string>

#include "walk/state/declared_placements.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

// True if the backward of a step reduces a partial gradient.
bool reduces_gradient(TapeKind kind) {
  return kind == TapeKind::FromLocal || kind == TapeKind::Redistribute || kind == TapeKind::SumGradient;
}

// Returns the axes over which a gradient is partial: as a DTensor declares it, or for a plain tensor as it is.
AxisMask partial_axes(const Grad& grad) {
  if (grad.has_declared) return partial_mask(grad.declared);
  AxisMask partial = grad.segments.empty() ? grad.state.partial : 0;
  for (const GradSegment& segment : grad.segments) partial |= segment.state.partial;
  return partial;
}

}  // namespace

std::optional<OverriddenLayout> overridden_layout(const Walk& walk, RuleId rule, std::span<const Placement> declared,
                                                  SlotId slot) {
  const ValueLayout& layout = layout_of(walk, slot);
  const auto axis = std::ranges::find(walk.in.axes, walk.in.plan.rules[rule].axis);
  if (!layout.is_dtensor || axis == walk.in.axes.end()) return std::nullopt;
  const auto at = static_cast<size_t>(axis - walk.in.axes.begin());
  const Placement wanted = normalised_placements(declared, layout.dims.size())[at], actual = layout.declared[at];
  return wanted == actual ? std::nullopt : std::optional(OverriddenLayout{wanted, actual});
}

void add_boundary_slot(Walk& walk, RuleId rule, bool is_output, int arg, std::string_view kwarg, size_t first,
                       SlotId slot, std::optional<OverriddenLayout> overridden) {
  if ((walk.out.gradients == nullptr && !overridden) || walk.out.crash != kNoId) return;
  const bool reduces = std::any_of(walk.memory.tape.begin() + static_cast<std::ptrdiff_t>(first),
                                   walk.memory.tape.end(), [](const TapeEntry& e) { return reduces_gradient(e.kind); });
  walk.memory.boundary_slots.push_back({.value = {.module = current_module(walk),
                                                  .rule = rule,
                                                  .is_output = is_output,
                                                  .arg = arg,
                                                  .kwarg = std::string(kwarg)},
                                        .reduces = reduces,
                                        .slot = slot,
                                        .overridden = overridden});
}

void note_grad_arrival(Walk& walk, SlotId slot, const Grad& grad) {
  if (walk.out.gradients == nullptr || has_no_grad(grad) || grad.state == kWrongGrad) return;
  ArrivedGrads& arrival = walk.memory.arrivals[slot];
  arrival.is_there = true;
  arrival.partial |= partial_axes(grad);
}

void list_walked_gradients(const Walk& walk) {
  if (walk.out.gradients == nullptr) return;
  for (const BoundarySlot& boundary : walk.memory.boundary_slots) {
    const ArrivedGrads& arrival = walk.memory.arrivals[boundary.slot];
    if (!arrival.is_there) continue;
    const auto axis = std::ranges::find(walk.in.axes, walk.in.plan.rules[boundary.value.rule].axis);
    if (axis == walk.in.axes.end()) continue;
    const bool partial = (arrival.partial & axis_bit(static_cast<size_t>(axis - walk.in.axes.begin()))) != 0;
    walk.out.gradients->push_back({.value = boundary.value,
                                   .sums = !partial           ? GradientReduction::None
                                           : boundary.reduces ? GradientReduction::Reduced
                                                              : GradientReduction::Partial});
  }
}

}  // namespace tpplan
