#include "walk/state/slots.h"

namespace tpplan {

ValueLayoutId sharded_layout(Walk& walk, std::span<const int64_t> shape, size_t dim) {
  ValueLayout layout = replicated_layout(walk.memory.table, shape);
  for (size_t axis = 0; axis < walk.in.axes.size(); ++axis)
    layout.dims[dim] = sharded_dim(walk.memory.table.maps, layout.dims[dim], axis);
  return intern(walk.memory.table, layout);
}

void restore_replaced_slots(Walk& walk, const ModuleFrame& frame) {
  for (auto hidden = frame.hidden.rbegin(); hidden != frame.hidden.rend(); ++hidden)
    set_slot(walk, hidden->first, hidden->second);
}

SlotId derive_slot(Walk& walk, SlotId from, const ValueLayout& layout, RuleId rule) {
  Slot slot = walk.memory.slots[from];
  slot.layout = intern(walk.memory.table, layout);
  slot.from = from;
  slot.memory = SlotMemory::Same;
  slot.is_leaf = false;
  slot.requires_grad = slot.requires_grad && is_grad_enabled(walk);
  if (rule != kNoRule) slot.origin = rule;
  return new_slot(walk, slot);
}

void set_dtype(Walk& walk, SlotId slot, std::string_view dtype, RuleId rule) {
  const bool is_traced = dtype == traced_dtype(walk, slot);
  walk.memory.slots[slot].dtype = is_traced ? std::string_view{} : dtype;
  walk.memory.slots[slot].typed_by = is_traced ? kNoRule : rule;
}

bool is_grad_enabled(const Walk& walk) {
  return !walk.in.infer && (walk.memory.frames.empty() || !walk.memory.frames.back().no_grad);
}

ModuleId current_module(const Walk& walk) {
  return walk.memory.frames.empty() ? kNone : walk.memory.frames.back().module;
}

}  // namespace tpplan
