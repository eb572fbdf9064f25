#include "walk/state/tape.h"

#include "walk/state/slots.h"

namespace tpplan {

void add_to_tape(Walk& walk, TapeEntry entry, std::span<const TapeSlot> ins, std::span<const TapeSlot> outs) {
  const auto put = [&](std::span<const TapeSlot> slots) {
    walk.memory.tape_slots.insert(walk.memory.tape_slots.end(), slots.begin(), slots.end());
    return static_cast<uint32_t>(walk.memory.tape_slots.size());
  };
  entry.in_begin = static_cast<uint32_t>(walk.memory.tape_slots.size());
  entry.in_end = entry.out_begin = put(ins);
  entry.out_end = put(outs);
  walk.memory.tape.push_back(std::move(entry));
}

OpId op_of(const Walk& walk, const TapeEntry& entry) {
  if (entry.kind != TapeKind::Op) return OpId::Unknown;
  const GraphNode& node = walk.in.graph.nodes[entry.node];
  return node.in_place ? OpId::Unknown : node.op;
}

void append_step(Walk& walk, TapeKind kind, SlotId in, SlotId out, DeclaredPlacements gradient, RuleId rule,
                 size_t axis, std::string_view dtype) {
  if (!walk.memory.slots[in].requires_grad || !is_grad_enabled(walk)) return;
  const TapeSlot from{in, walk.memory.slots[in].layout}, to{out, walk.memory.slots[out].layout};
  add_to_tape(walk,
              {.kind = kind,
               .gradient = std::move(gradient),
               .dtype = dtype,
               .axis = axis,
               .module = current_module(walk),
               .rule = rule},
              {&from, 1}, {&to, 1});
}

}  // namespace tpplan
