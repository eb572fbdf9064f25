// Slots of values: the current slot of a value, and its layout, dtype and shape.
#pragma once

#include <span>
#include <string_view>

#include "walk/state/walk_state.h"

namespace tpplan {

// Returns Replicate on every axis.
[[nodiscard]] inline DeclaredPlacements replicated_placements(const Walk& walk) {
  return DeclaredPlacements(walk.in.axes.size());
}

[[nodiscard]] inline SlotId new_slot(Walk& walk, const Slot& slot) {
  walk.memory.slots.push_back(slot);
  return static_cast<SlotId>(walk.memory.slots.size() - 1);
}
// Makes `slot` the current slot of the value.
inline void set_slot(Walk& walk, ValueId value, SlotId slot) {
  walk.memory.slot_of[value] = slot;
  walk.memory.layout_of[value] = walk.memory.slots[slot].layout;
}
// Returns the layout of a value of this shape whose dim all walked axes shard.
[[nodiscard]] ValueLayoutId sharded_layout(Walk& walk, std::span<const int64_t> shape, size_t dim);
// Restores the slots that were replaced during the module's forward.
void restore_replaced_slots(Walk& walk, const ModuleFrame& frame);
// Returns a new slot made from `from` by a step: the same value in another layout, with the origin `rule` if there is
// one.
[[nodiscard]] SlotId derive_slot(Walk& walk, SlotId from, const ValueLayout& layout, RuleId rule);

[[nodiscard]] inline const ValueLayout& layout_of(const Walk& walk, SlotId slot) {
  return walk.memory.table.layouts[walk.memory.slots[slot].layout];
}
[[nodiscard]] inline std::span<const int64_t> shape_of(const Walk& walk, SlotId slot) {
  return shape_of(walk.in.graph, walk.memory.slots[slot].value);
}
[[nodiscard]] inline std::string_view traced_dtype(const Walk& walk, SlotId slot) {
  return walk.in.graph.strings[walk.in.graph.values[walk.memory.slots[slot].value].dtype];
}
[[nodiscard]] inline std::string_view dtype_of(const Walk& walk, SlotId slot) {
  const std::string_view dtype = walk.memory.slots[slot].dtype;
  return dtype.empty() ? traced_dtype(walk, slot) : dtype;
}
// Sets the dtype of a slot; `rule` is the cause of the cast.
void set_dtype(Walk& walk, SlotId slot, std::string_view dtype, RuleId rule);

// True if autograd is enabled in the current module.
[[nodiscard]] bool is_grad_enabled(const Walk& walk);
[[nodiscard]] ModuleId current_module(const Walk& walk);

}  // namespace tpplan
