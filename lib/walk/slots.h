// Values on their way: which slot stands for a value, and what is known of it.
#pragma once

#include <span>
#include <string_view>

#include "walk/walk_state.h"

namespace tpplan {

[[nodiscard]] inline SlotId new_slot(Walk& walk, const Slot& slot) {
  walk.slots.push_back(slot);
  return static_cast<SlotId>(walk.slots.size() - 1);
}
// From here on the value is what the slot says.
inline void set_slot(Walk& walk, ValueId value, SlotId slot) {
  walk.slot_of[value] = slot;
  walk.layout_of[value] = walk.slots[slot].layout;
}
// What a module saw otherwise is again what it was.
void show_hidden(Walk& walk, const ModuleFrame& frame);
// What a step made of a value: another layout, whose origin is `rule` where there is one.
[[nodiscard]] SlotId derived(Walk& walk, SlotId from, const Spread& layout, RuleId rule);

[[nodiscard]] inline const Spread& layout_of(const Walk& walk, SlotId slot) {
  return walk.table.layouts[walk.slots[slot].layout];
}
[[nodiscard]] inline std::span<const int64_t> shape_of(const Walk& walk, SlotId slot) {
  return shape_of(walk.graph, walk.slots[slot].value);
}
[[nodiscard]] inline std::string_view recorded_dtype(const Walk& walk, SlotId slot) {
  return walk.graph.strings[walk.graph.values[walk.slots[slot].value].dtype];
}
[[nodiscard]] inline std::string_view dtype_of(const Walk& walk, SlotId slot) {
  const std::string_view dtype = walk.slots[slot].dtype;
  return dtype.empty() ? recorded_dtype(walk, slot) : dtype;
}
// The slot has this type from here on, because of a rule.
void set_dtype(Walk& walk, SlotId slot, std::string_view dtype, RuleId rule);

// Where the walk is.
[[nodiscard]] bool records_gradients(const Walk& walk);
[[nodiscard]] ModuleId module_at(const Walk& walk);

}  // namespace tpplan
