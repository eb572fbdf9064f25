#include "walk/tape.h"

#include "walk/slots.h"

namespace tpplan {

void add_to_tape(Walk& walk, TapeEntry entry, std::span<const TapeSlot> ins, std::span<const TapeSlot> outs) {
  const auto put = [&](std::span<const TapeSlot> slots) {
    walk.tape_slots.insert(walk.tape_slots.end(), slots.begin(), slots.end());
    return static_cast<uint32_t>(walk.tape_slots.size());
  };
  entry.in_begin = static_cast<uint32_t>(walk.tape_slots.size());
  entry.in_end = entry.out_begin = put(ins);
  entry.out_end = put(outs);
  walk.tape.push_back(std::move(entry));
}

void record_step(Walk& walk, TapeKind kind, SlotId in, SlotId out, Claim gradient, RuleId rule, size_t axis,
                 std::string_view dtype) {
  if (!walk.slots[in].requires_grad || !records_gradients(walk)) return;
  const TapeSlot from{in, walk.slots[in].layout}, to{out, walk.slots[out].layout};
  add_to_tape(walk,
              {.kind = kind,
               .gradient = std::move(gradient),
               .dtype = dtype,
               .axis = axis,
               .module = module_at(walk),
               .rule = rule},
              {&from, 1}, {&to, 1});
}

}  // namespace tpplan
