#include "walk/repeat_layers.h"

#include <algorithm>

#include "walk/slots.h"

namespace tpplan {
namespace {

LayerMark mark_of(const Walk& walk) {
  return {.slots = static_cast<uint32_t>(walk.slots.size()),
          .tape = static_cast<uint32_t>(walk.tape.size()),
          .tape_slots = static_cast<uint32_t>(walk.tape_slots.size()),
          .segments = static_cast<uint32_t>(walk.segments.size()),
          .trace_ops = walk.trace == nullptr ? 0 : static_cast<uint32_t>(walk.trace->ops.size()),
          .trace_slots = walk.trace == nullptr ? 0 : static_cast<uint32_t>(walk.trace->slots.size()),
          .causes = walk.causes.size(),
          .reports = walk.reports,
          .calls = walk.calls.size()};
}

// Nothing was found between the two. What was interned or remembered would be found where it is by who does the same.
bool found_nothing(const LayerMark& a, const LayerMark& b) { return a.causes == b.causes && a.reports == b.reports; }

// From a layer to one that is `turns` behind it (before it, where negative).
struct Shift {
  const LayerStack& stack;
  uint32_t layer = 0;
  int64_t turns = 0;
  int64_t slots = 0;  // that each layer makes
};

inline uint32_t moved(uint32_t id, uint32_t each, const Shift& by) {
  return static_cast<uint32_t>(id + by.turns * static_cast<int64_t>(each));
}

inline bool is_in(uint32_t id, uint32_t first, uint32_t each, uint32_t layer) {
  return id >= first + layer * each && id < first + (layer + 1) * each;
}

inline ValueId move_value(ValueId value, const Shift& by) {
  return value < by.stack.since ? value : moved(value, by.stack.values, by);
}

inline ModuleId move_module(ModuleId module, const Shift& by) {
  return is_in(module, by.stack.module, by.stack.modules, by.layer) ? moved(module, by.stack.modules, by) : module;
}

inline ParamId move_param(ParamId param, const Shift& by) {
  return is_in(param, by.stack.param, by.stack.params, by.layer) ? moved(param, by.stack.params, by) : param;
}

// Slots of the layer and of the one before it, which `marks` says; leaves, which were the first; what all see.
struct SlotShift {
  SlotId since = 0;  // of the layer before
  uint32_t by = 0;
  SlotId leaf = 0, behind = 0;  // leaves of the layer
  uint32_t leaf_by = 0;
};

SlotShift slot_shift(const StackWalk& run, const Shift& by) {
  const LayerStack& stack = *run.stack;
  return {.since = run.marks[by.layer - 1].slots,
          .by = static_cast<uint32_t>(by.turns * by.slots),
          .leaf = stack.leaf + by.layer * stack.leaves,
          .behind = stack.leaf + (by.layer + 1) * stack.leaves,
          .leaf_by = static_cast<uint32_t>(by.turns * static_cast<int64_t>(stack.leaves))};
}

inline SlotId move_slot(const SlotShift& by, SlotId slot) {
  if (slot == kNoId) return kNoId;
  if (slot >= by.since) return slot + by.by;
  return slot >= by.leaf && slot < by.behind ? slot + by.leaf_by : slot;
}

// True when move_slot says where it goes.
bool can_move(const Walk& walk, const StackWalk& run, SlotId slot, uint32_t layer) {
  const LayerStack& stack = *run.stack;
  if (slot == kNoId || slot >= run.marks[layer - 1].slots) return true;
  if (slot >= run.marks[0].slots) return false;
  if (slot >= walk.graph.leaves.size() || slot < stack.leaf || slot >= stack.leaf + stack.count * stack.leaves)
    return true;
  return is_in(slot, stack.leaf, stack.leaves, layer);
}

inline Slot move_slot_record(const SlotShift& slots, const Slot& slot, const Shift& by) {
  Slot next = slot;
  next.value = move_value(slot.value, by);
  next.held = move_param(slot.held, by);
  next.param = move_param(slot.param, by);
  next.from = move_slot(slots, slot.from);
  return next;
}

// Whatever of it decides over what is done with it.
inline bool same_slot(const Slot& a, const Slot& b) {
  return a.layout == b.layout && a.requires_grad == b.requires_grad && a.origin == b.origin && a.cause == b.cause &&
         a.memory == b.memory && a.is_leaf == b.is_leaf && a.dtype == b.dtype && a.typed_by == b.typed_by;
}

// The plan treats the layer that is so many behind as this one.
bool is_treated_alike(const Walk& walk, const LayerStack& stack, uint32_t layer, uint32_t turns) {
  const Shift by{stack, layer, turns, 0};
  for (uint32_t i = 0; i < stack.modules; ++i) {
    const ModuleId a = stack.module + layer * stack.modules + i, b = moved(a, stack.modules, by);
    if (walk.rule_of_module[a] != walk.rule_of_module[b]) return false;
    if (!walk.rules_of_module.empty() && walk.rules_of_module[a] != walk.rules_of_module[b]) return false;
    const std::vector<uint32_t>& programs = walk.programs.of_module;
    if (!programs.empty() && programs[a] != programs[b]) return false;
  }
  for (uint32_t i = 0; i < stack.params; ++i) {
    const ParamId a = stack.param + layer * stack.params + i, b = moved(a, stack.params, by);
    const ParamSharding &x = walk.shardings.params[a], &y = walk.shardings.params[b];
    if (walk.matches.params[a].rule != walk.matches.params[b].rule) return false;
    if (x.sharding != y.sharding || x.rule != y.rule) return false;
    const ValueId from = walk.value_of_param[a], to = walk.value_of_param[b];
    if (from == kNoId ? to != kNoId : to != move_value(from, by)) return false;
  }
  for (uint32_t i = 0; i < stack.leaves; ++i) {
    const SlotId a = stack.leaf + layer * stack.leaves + i, b = moved(a, stack.leaves, by);
    const Slot &x = walk.slots[a], &y = walk.slots[b];
    if (walk.slot_of[walk.graph.leaves[a].value] != a || walk.slot_of[walk.graph.leaves[b].value] != b) return false;
    if (!same_slot(x, y) || y.value != move_value(x.value, by)) return false;
    if (y.held != move_param(x.held, by) || y.param != move_param(x.param, by)) return false;
  }
  return true;
}

std::vector<std::pair<SlotId, SpreadId>> taken_at(const Walk& walk, const LayerStack& stack, uint32_t layer) {
  std::vector<std::pair<SlotId, SpreadId>> taken;
  for (const ValueId value : stack.taken) {
    const ValueId at = value < stack.since ? value : value + layer * stack.values;
    taken.emplace_back(walk.slot_of[at], walk.layout_of[at]);
  }
  return taken;
}

// What the layer takes is what the one before it took.
bool takes_the_same(const Walk& walk, const StackWalk& run, uint32_t layer,
                    const std::vector<std::pair<SlotId, SpreadId>>& now) {
  const LayerStack& stack = *run.stack;
  const LayerMark &a = run.marks[layer - 1], &b = run.marks[layer];
  const Shift by{stack, layer - 1, 1, b.slots - a.slots};
  for (size_t i = 0; i < now.size(); ++i) {
    const auto [before, layout_before] = run.taken[i];
    if (now[i].second != layout_before) return false;
    if (stack.taken[i] < stack.since) {
      if (now[i].first != before || before >= run.marks[0].slots) return false;
      continue;
    }
    if (now[i].first != before + by.slots || now[i].first < a.slots) return false;
    const Slot &x = walk.slots[before], &y = walk.slots[now[i].first];
    if (!same_slot(x, y) || y.value != move_value(x.value, by)) return false;
    if (x.held != kNone || y.held != kNone || x.param != y.param) return false;
  }
  return true;
}

bool can_repeat(const Walk& walk, const StackWalk& run, uint32_t layer) {
  const LayerStack& stack = *run.stack;
  const LayerMark &a = run.marks[layer - 1], &b = run.marks[layer];
  if (walk.crash != kNoId || !found_nothing(a, b)) return false;
  if (layer < 2 || b.slots - a.slots != a.slots - run.marks[layer - 2].slots) return false;
  const auto movable = [&](SlotId slot) { return can_move(walk, run, slot, layer - 1); };
  for (uint32_t s = a.slots; s < b.slots; ++s) {
    if (!movable(walk.slots[s].from)) return false;
  }
  for (uint32_t s = a.tape_slots; s < b.tape_slots; ++s) {
    if (!movable(walk.tape_slots[s].slot)) return false;
  }
  for (uint32_t s = a.trace_slots; s < b.trace_slots; ++s) {
    if (!movable(walk.trace->slots[s])) return false;
  }
  for (uint32_t turns = 1; layer - 1 + turns < stack.count; ++turns) {
    if (!is_treated_alike(walk, stack, layer - 1, turns)) return false;
  }
  return true;
}

// What the layer wrote, once more for the one that is so many behind.
void write_again(Walk& walk, StackWalk& run, uint32_t layer, uint32_t turns) {
  const LayerStack& stack = *run.stack;
  const LayerMark a = run.marks[layer], b = run.marks[layer + 1];
  const Shift by{stack, layer, turns, b.slots - a.slots};
  const uint32_t tape_slots = turns * (b.tape_slots - a.tape_slots), segments = turns * (b.segments - a.segments);
  const SlotShift slots = slot_shift(run, by);
  size_t end = walk.slots.size();
  walk.slots.resize(end + (b.slots - a.slots));
  for (uint32_t i = a.slots; i < b.slots; ++i) walk.slots[end++] = move_slot_record(slots, walk.slots[i], by);
  end = walk.tape_slots.size();
  walk.tape_slots.resize(end + (b.tape_slots - a.tape_slots));
  for (uint32_t i = a.tape_slots; i < b.tape_slots; ++i)
    walk.tape_slots[end++] = {move_slot(slots, walk.tape_slots[i].slot), walk.tape_slots[i].layout};
  for (uint32_t i = a.segments; i < b.segments; ++i) walk.segments.push_back(Segment(walk.segments[i]));
  for (uint32_t i = a.tape; i < b.tape; ++i) {
    walk.tape.push_back(walk.tape[i]);
    TapeEntry& entry = walk.tape.back();
    if (entry.node != kNoId) entry.node = moved(entry.node, stack.nodes, by);
    entry.in_begin += tape_slots;
    entry.in_end += tape_slots;
    entry.out_begin += tape_slots;
    entry.out_end += tape_slots;
    entry.segments_begin += segments;
    entry.segments_end += segments;
    entry.module = move_module(entry.module, by);
  }
  if (walk.trace != nullptr) {
    const uint32_t trace_slots = turns * (b.trace_slots - a.trace_slots);
    end = walk.trace->slots.size();
    walk.trace->slots.resize(end + (b.trace_slots - a.trace_slots));
    for (uint32_t i = a.trace_slots; i < b.trace_slots; ++i)
      walk.trace->slots[end++] = move_slot(slots, walk.trace->slots[i]);
    end = walk.trace->ops.size();
    walk.trace->ops.resize(end + (b.trace_ops - a.trace_ops));
    for (uint32_t i = a.trace_ops; i < b.trace_ops; ++i) {
      TracedOp& op = walk.trace->ops[end++] = walk.trace->ops[i];
      op.node = moved(op.node, stack.nodes, by);
      op.module = move_module(op.module, by);
      op.in_begin += trace_slots;
      op.in_end += trace_slots;
      op.out_begin += trace_slots;
      op.out_end += trace_slots;
    }
  }
  const ValueId value = stack.value + layer * stack.values;
  for (ValueId v = value; v < value + stack.values; ++v) {
    const ValueId at = moved(v, stack.values, by);
    walk.slot_of[at] = move_slot(slots, walk.slot_of[v]);
    walk.layout_of[at] = walk.layout_of[v];
    walk.sum_rule[at] = walk.sum_rule[v];
  }
  const uint32_t size = stack.size + layer * stack.sizes;
  for (uint32_t s = size; s < size + stack.sizes; ++s)
    walk.size_numbers[moved(s, stack.sizes, by)] = walk.size_numbers[s];
}

void write_calls_again(Walk& walk, const LayerStack& stack, uint32_t layer, int64_t turns, size_t begin, size_t end) {
  const Shift by{stack, layer, turns, 0};
  for (size_t i = begin; i < end; ++i) {
    CollectiveCall call = walk.calls[i];
    const ModuleId module = move_module(walk.call_modules[i], by);
    if (module != kNone) call.module = walk.model.modules[module].path;
    walk.calls.push_back(std::move(call));
    walk.call_modules.push_back(module);
  }
}

void make_room(Walk& walk, const LayerMark& a, const LayerMark& b, uint32_t times) {
  const auto grow = [times](auto& list, size_t each) { list.reserve(list.size() + (times + 1) * each); };
  grow(walk.slots, b.slots - a.slots);
  grow(walk.tape, b.tape - a.tape);
  grow(walk.tape_slots, b.tape_slots - a.tape_slots);
  if (walk.trace == nullptr) return;
  grow(walk.trace->ops, b.trace_ops - a.trace_ops);
  grow(walk.trace->slots, b.trace_slots - a.trace_slots);
}

uint32_t layer_at(const LayerStack& stack, uint32_t node) {
  if (node < stack.node || (node - stack.node) % stack.nodes != 0) return kNoId;
  const uint32_t layer = (node - stack.node) / stack.nodes;
  return layer <= stack.count ? layer : kNoId;
}

}  // namespace

uint32_t repeat_layers(Walk& walk, uint32_t node) {
  for (StackWalk& run : walk.stacks) {
    const LayerStack& stack = *run.stack;
    const uint32_t layer = layer_at(stack, node);
    if (layer == kNoId || layer != run.marks.size()) continue;
    run.marks.push_back(mark_of(walk));
    if (layer == stack.count) continue;
    auto taken = taken_at(walk, stack, layer);
    const bool again = layer >= 2 && takes_the_same(walk, run, layer, taken) && can_repeat(walk, run, layer);
    run.taken = std::move(taken);
    if (!again) continue;
    run.first_alike = layer - 1;
    const LayerMark a = run.marks[layer - 1], b = run.marks[layer];
    make_room(walk, a, b, stack.count - layer);
    if (walk.trace != nullptr)
      walk.trace->alike.push_back({.count = stack.count - layer,
                                   .op = b.trace_ops,
                                   .ops = b.trace_ops - a.trace_ops,
                                   .value = b.slots,
                                   .values = b.slots - a.slots,
                                   .module = stack.module + layer * stack.modules,
                                   .modules = stack.modules});
    for (uint32_t turns = 1; layer - 1 + turns < stack.count; ++turns) {
      write_again(walk, run, layer - 1, turns);
      write_calls_again(walk, stack, layer - 1, turns, a.calls, b.calls);
      run.marks.push_back(mark_of(walk));
      ++walk.repeated;
    }
    return stack.node + stack.count * stack.nodes;
  }
  return node;
}

namespace {

bool same_grad(const Grad& a, const Grad& b) {
  return a.state == b.state && a.dim == b.dim && a.has_claim == b.has_claim && a.claim == b.claim &&
         a.layout == b.layout && a.cause == b.cause && a.rule == b.rule &&
         std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                    [](const GradSegment& x, const GradSegment& y) {
                      return x.begin == y.begin && x.end == y.end && x.state == y.state;
                    });
}

// Slots that all layers see, whose gradients each adds to.
std::vector<SlotId> find_shared(const Walk& walk, const StackWalk& run) {
  const LayerStack& stack = *run.stack;
  const LayerMark &a = run.marks[run.first_alike], &b = run.marks[run.first_alike + 1];
  std::vector<SlotId> shared;
  for (uint32_t i = a.tape_slots; i < b.tape_slots; ++i) {
    const SlotId slot = walk.tape_slots[i].slot;
    const bool is_own =
        slot >= run.marks[run.first_alike - 1].slots || is_in(slot, stack.leaf, stack.leaves, run.first_alike);
    if (!is_own) shared.push_back(slot);
  }
  std::sort(shared.begin(), shared.end());
  shared.erase(std::unique(shared.begin(), shared.end()), shared.end());
  return shared;
}

// What has come back so far to the layer that is next on the way back.
BackStack look_at(const Backward& b, const BackStack& back) {
  const StackWalk& run = *back.walked;
  const LayerStack& stack = *run.stack;
  BackStack now{.walked = back.walked,
                .layer = back.layer,
                .has_before = true,
                .mark = mark_of(b.walk),
                .grads = {},
                .uses = {},
                .shared = {},
                .shared_slots = back.shared_slots};
  const SlotId first = run.marks[back.layer].slots, end = run.marks[back.layer + 1].slots;
  for (SlotId s = first; s < end; ++s) {
    if (!is_none(b.grads[s])) now.grads.emplace_back(s - first, b.grads[s]);
  }
  const SlotId leaf = stack.leaf + back.layer * stack.leaves;
  for (uint32_t i = 0; i < stack.leaves; ++i) {
    if (!is_none(b.grads[leaf + i])) now.grads.emplace_back(end - first + i, b.grads[leaf + i]);
    const uint32_t use = b.first_use[leaf + i];
    now.uses.push_back(use == kNoId ? kNoId : use - run.marks[back.layer].tape);
  }
  for (const SlotId slot : now.shared_slots) now.shared.push_back(b.grads[slot]);
  return now;
}

bool came_back_alike(const BackStack& a, const BackStack& b) {
  return found_nothing(a.mark, b.mark) && a.uses == b.uses &&
         std::equal(a.grads.begin(), a.grads.end(), b.grads.begin(), b.grads.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_grad(x.second, y.second); }) &&
         std::equal(a.shared.begin(), a.shared.end(), b.shared.begin(), b.shared.end(), same_grad);
}

// All layers below use their leaves as this one does, and none is the last to add to what all see.
bool is_used_alike(const Backward& b, const BackStack& back) {
  const StackWalk& run = *back.walked;
  const LayerStack& stack = *run.stack;
  for (uint32_t layer = run.first_alike; layer < back.layer; ++layer) {
    for (uint32_t i = 0; i < stack.leaves; ++i) {
      const uint32_t use = b.first_use[stack.leaf + layer * stack.leaves + i];
      if ((use == kNoId ? kNoId : use - run.marks[layer].tape) != back.uses[i]) return false;
    }
  }
  return std::all_of(back.shared_slots.begin(), back.shared_slots.end(), [&](SlotId slot) {
    return b.first_use[slot] == kNoId || b.first_use[slot] < run.marks[run.first_alike].tape;
  });
}

}  // namespace

std::vector<BackStack> begin_back_stacks(const Backward& b) {
  std::vector<BackStack> stacks;
  for (const StackWalk& run : b.walk.stacks) {
    const bool did_the_same = run.first_alike != kNoId && run.marks.size() == run.stack->count + 1;
    if (!did_the_same || run.marks[run.first_alike].tape == run.marks[run.first_alike + 1].tape) continue;
    stacks.push_back({.walked = &run,
                      .layer = run.stack->count - 1,
                      .has_before = false,
                      .mark = {},
                      .grads = {},
                      .uses = {},
                      .shared = {},
                      .shared_slots = find_shared(b.walk, run)});
  }
  return stacks;
}

size_t repeat_layers_back(Backward& b, std::vector<BackStack>& stacks, size_t end) {
  for (BackStack& back : stacks) {
    const StackWalk& run = *back.walked;
    const LayerStack& stack = *run.stack;
    if (back.layer < run.first_alike || back.layer == kNoId || end != run.marks[back.layer + 1].tape) continue;
    BackStack now = look_at(b, back);
    const bool again = back.has_before && came_back_alike(back, now) && is_used_alike(b, now);
    const LayerMark before = back.mark;
    back = std::move(now);
    --back.layer;
    if (!again) continue;
    const uint32_t layer = back.layer + 1;  // the next, which did the same as the one behind it
    for (uint32_t turns = 1; layer + 1 - turns >= run.first_alike; ++turns) {
      write_calls_again(b.walk, stack, layer + 1, -static_cast<int64_t>(turns), before.calls, back.mark.calls);
      ++b.walk.repeated_back;
    }
    // What came back to this layer comes back to the one below them all.
    const uint32_t made = run.marks[layer + 1].slots - run.marks[layer].slots, below = run.first_alike - 1;
    for (auto& [slot, grad] : back.grads)
      b.grads[slot < made ? run.marks[below].slots + slot : stack.leaf + below * stack.leaves + slot - made] =
          std::move(grad);
    back.layer = kNoId;
    return run.marks[run.first_alike].tape;
  }
  return end;
}

}  // namespace tpplan
