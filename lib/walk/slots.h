// Values on their way: which slot stands for a value, and what is known of it.
#pragma once

#include <span>
#include <string_view>

#include "walk/walk_state.h"

namespace tpplan {

[[nodiscard]] SlotId new_slot(Walk& walk, Slot slot);
// From here on the value is what the slot says.
void set_slot(Walk& walk, ValueId value, SlotId slot);
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
[[nodiscard]] std::string_view dtype_of(const Walk& walk, SlotId slot);
[[nodiscard]] std::string_view recorded_dtype(const Walk& walk, SlotId slot);
// The slot has this type from here on, because of a rule.
void set_dtype(Walk& walk, SlotId slot, std::string_view dtype, RuleId rule);

// Where the walk is.
[[nodiscard]] bool records_gradients(const Walk& walk);
[[nodiscard]] ModuleId module_at(const Walk& walk);

}  // namespace tpplan
