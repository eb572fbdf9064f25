#include "walk/slots.h"

namespace tpplan {

void show_hidden(Walk& walk, const ModuleFrame& frame) {
  for (auto hidden = frame.hidden.rbegin(); hidden != frame.hidden.rend(); ++hidden)
    set_slot(walk, hidden->first, hidden->second);
}

SlotId derived(Walk& walk, SlotId from, const Spread& layout, RuleId rule) {
  Slot slot = walk.slots[from];
  slot.layout = intern(walk.table, layout);
  slot.from = from;
  slot.memory = SlotMemory::Same;
  slot.is_leaf = false;
  slot.requires_grad = slot.requires_grad && records_gradients(walk);
  if (rule != kNoRule) slot.origin = rule;
  return new_slot(walk, slot);
}

void set_dtype(Walk& walk, SlotId slot, std::string_view dtype, RuleId rule) {
  const bool is_recorded = dtype == recorded_dtype(walk, slot);
  walk.slots[slot].dtype = is_recorded ? std::string_view{} : dtype;
  walk.slots[slot].typed_by = is_recorded ? kNoRule : rule;
}

bool records_gradients(const Walk& walk) { return !walk.infer && (walk.frames.empty() || !walk.frames.back().no_grad); }

ModuleId module_at(const Walk& walk) { return walk.frames.empty() ? kNone : walk.frames.back().module; }

}  // namespace tpplan
