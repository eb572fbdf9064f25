#include "walk/run/repeat_layers.h"

#include <algorithm>

#include "walk/state/slots.h"

namespace tpplan {
namespace {

LayerStart mark_of(const Walk& walk) {
  return {.slots = static_cast<uint32_t>(walk.memory.slots.size()),
          .tape = static_cast<uint32_t>(walk.memory.tape.size()),
          .tape_slots = static_cast<uint32_t>(walk.memory.tape_slots.size()),
          .segments = static_cast<uint32_t>(walk.memory.segments.size()),
          .trace_ops = walk.out.trace == nullptr ? 0 : static_cast<uint32_t>(walk.out.trace->ops.size()),
          .trace_slots = walk.out.trace == nullptr ? 0 : static_cast<uint32_t>(walk.out.trace->slots.size()),
          .boundary_slots = static_cast<uint32_t>(walk.memory.boundary_slots.size()),
          .causes = walk.out.causes.size(),
          .reports = walk.out.reports,
          .calls = walk.out.calls.size()};
}

// True if no error was found between the two marks. Layers that repeat the same work reuse interned and memoized
// entries.
bool has_no_report(const LayerStart& a, const LayerStart& b) { return a.causes == b.causes && a.reports == b.reports; }

// The move from a layer to the one `distance` layers after it (before it, if negative).
struct Shift {
  const LayerStack& stack;
  uint32_t layer = 0;
  int64_t distance = 0;
  int64_t slots = 0;  // that each layer makes
};

inline uint32_t moved(uint32_t id, uint32_t each, const Shift& by) {
  return static_cast<uint32_t>(id + by.distance * static_cast<int64_t>(each));
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

// The move of slots: those of the layer and of the previous one, and those of leaves. Other slots are shared.
struct SlotShift {
  SlotId since = 0;  // first slot of the previous layer
  uint32_t by = 0;
  SlotId leaf = 0, leaf_end = 0;  // range of the layer's leaves
  uint32_t leaf_by = 0;
};

SlotShift slot_shift(const StackWalk& run, const Shift& by) {
  const LayerStack& stack = *run.stack;
  return {.since = run.marks[by.layer - 1].slots,
          .by = static_cast<uint32_t>(by.distance * by.slots),
          .leaf = stack.leaf + by.layer * stack.leaves,
          .leaf_end = stack.leaf + (by.layer + 1) * stack.leaves,
          .leaf_by = static_cast<uint32_t>(by.distance * static_cast<int64_t>(stack.leaves))};
}

inline SlotId move_slot(const SlotShift& by, SlotId slot) {
  if (slot == kNoId) return kNoId;
  if (slot >= by.since) return slot + by.by;
  return slot >= by.leaf && slot < by.leaf_end ? slot + by.leaf_by : slot;
}

// True if move_slot returns the right slot.
bool can_move(const Walk& walk, const StackWalk& run, SlotId slot, uint32_t layer) {
  const LayerStack& stack = *run.stack;
  if (slot == kNoId || slot >= run.marks[layer - 1].slots) return true;
  if (slot >= run.marks[0].slots) return false;
  if (slot >= walk.in.graph.leaves.size() || slot < stack.leaf || slot >= stack.leaf + stack.count * stack.leaves)
    return true;
  return is_in(slot, stack.leaf, stack.leaves, layer);
}

inline Slot shift_slot(const SlotShift& slots, const Slot& slot, const Shift& by) {
  Slot next = slot;
  next.value = move_value(slot.value, by);
  next.held = move_param(slot.held, by);
  next.param = move_param(slot.param, by);
  next.from = move_slot(slots, slot.from);
  return next;
}

// True if the slots are equal in everything that affects their use.
inline bool same_slot(const Slot& a, const Slot& b) {
  return a.layout == b.layout && a.requires_grad == b.requires_grad && a.origin == b.origin && a.cause == b.cause &&
         a.memory == b.memory && a.is_leaf == b.is_leaf && a.dtype == b.dtype && a.typed_by == b.typed_by;
}

bool same_counts(const WalkMemory& memory, uint32_t a, uint32_t b) {
  return a == b || (a != kNoId && b != kNoId && memory.counts[a] == memory.counts[b]);
}

// True if the plan has the same rules for the layer `distance` after this one.
bool has_same_treatment(const Walk& walk, const LayerStack& stack, uint32_t layer, uint32_t distance) {
  const Shift by{stack, layer, distance, 0};
  for (uint32_t i = 0; i < stack.modules; ++i) {
    const ModuleId a = stack.module + layer * stack.modules + i, b = moved(a, stack.modules, by);
    if (walk.memory.rule_of_module[a] != walk.memory.rule_of_module[b]) return false;
    if (!walk.memory.rules_of_module.empty() && walk.memory.rules_of_module[a] != walk.memory.rules_of_module[b])
      return false;
    const std::vector<uint32_t>& counts = walk.memory.counts_of_module;
    if (!counts.empty() && !same_counts(walk.memory, counts[a], counts[b])) return false;
    const std::vector<uint32_t>& programs = walk.memory.programs.of_module;
    if (!programs.empty() && programs[a] != programs[b]) return false;
  }
  for (uint32_t i = 0; i < stack.params; ++i) {
    const ParamId a = stack.param + layer * stack.params + i, b = moved(a, stack.params, by);
    const ParamSharding &x = walk.in.shardings.params[a], &y = walk.in.shardings.params[b];
    if (walk.in.matches.params[a].rule != walk.in.matches.params[b].rule) return false;
    if (x.sharding != y.sharding || x.rule != y.rule) return false;
    const ValueId from = walk.memory.value_of_param[a], to = walk.memory.value_of_param[b];
    if (from == kNoId ? to != kNoId : to != move_value(from, by)) return false;
  }
  for (uint32_t i = 0; i < stack.leaves; ++i) {
    const SlotId a = stack.leaf + layer * stack.leaves + i, b = moved(a, stack.leaves, by);
    const Slot &x = walk.memory.slots[a], &y = walk.memory.slots[b];
    if (walk.memory.slot_of[walk.in.graph.leaves[a].value] != a ||
        walk.memory.slot_of[walk.in.graph.leaves[b].value] != b)
      return false;
    if (!same_slot(x, y) || y.value != move_value(x.value, by)) return false;
    if (y.held != move_param(x.held, by) || y.param != move_param(x.param, by)) return false;
  }
  return true;
}

std::vector<std::pair<SlotId, ValueLayoutId>> taken_at(const Walk& walk, const LayerStack& stack, uint32_t layer) {
  std::vector<std::pair<SlotId, ValueLayoutId>> taken;
  for (const ValueId value : stack.taken) {
    const ValueId at = value < stack.since ? value : value + layer * stack.values;
    taken.emplace_back(walk.memory.slot_of[at], walk.memory.layout_of[at]);
  }
  return taken;
}

// True if the inputs of the layer are those of the previous layer, moved by one layer.
bool takes_the_same(const Walk& walk, const StackWalk& run, uint32_t layer,
                    const std::vector<std::pair<SlotId, ValueLayoutId>>& now) {
  const LayerStack& stack = *run.stack;
  const LayerStart &a = run.marks[layer - 1], &b = run.marks[layer];
  const Shift by{stack, layer - 1, 1, b.slots - a.slots};
  for (size_t i = 0; i < now.size(); ++i) {
    const auto [before, layout_before] = run.taken[i];
    if (now[i].second != layout_before) return false;
    if (stack.taken[i] < stack.since) {
      if (now[i].first != before || before >= run.marks[0].slots) return false;
      continue;
    }
    if (now[i].first != before + by.slots || now[i].first < a.slots) return false;
    const Slot &x = walk.memory.slots[before], &y = walk.memory.slots[now[i].first];
    if (!same_slot(x, y) || y.value != move_value(x.value, by)) return false;
    if (x.held != kNone || y.held != kNone || x.param != y.param) return false;
  }
  return true;
}

bool can_repeat(const Walk& walk, const StackWalk& run, uint32_t layer) {
  const LayerStack& stack = *run.stack;
  const LayerStart &a = run.marks[layer - 1], &b = run.marks[layer];
  if (walk.out.crash != kNoId || !has_no_report(a, b)) return false;
  if (layer < 2 || b.slots - a.slots != a.slots - run.marks[layer - 2].slots) return false;
  const auto movable = [&](SlotId slot) { return can_move(walk, run, slot, layer - 1); };
  for (uint32_t s = a.slots; s < b.slots; ++s) {
    if (!movable(walk.memory.slots[s].from)) return false;
  }
  for (uint32_t s = a.tape_slots; s < b.tape_slots; ++s) {
    if (!movable(walk.memory.tape_slots[s].slot)) return false;
  }
  for (uint32_t s = a.trace_slots; s < b.trace_slots; ++s) {
    if (!movable(walk.out.trace->slots[s])) return false;
  }
  for (uint32_t distance = 1; layer - 1 + distance < stack.count; ++distance) {
    if (!has_same_treatment(walk, stack, layer - 1, distance)) return false;
  }
  return true;
}

// Writes the entries of a layer again for the layer `distance` after it.
void write_again(Walk& walk, StackWalk& run, uint32_t layer, uint32_t distance) {
  const LayerStack& stack = *run.stack;
  const LayerStart a = run.marks[layer], b = run.marks[layer + 1];
  const Shift by{stack, layer, distance, b.slots - a.slots};
  const uint32_t tape_slots = distance * (b.tape_slots - a.tape_slots), segments = distance * (b.segments - a.segments);
  const SlotShift slots = slot_shift(run, by);
  size_t end = walk.memory.slots.size();
  walk.memory.slots.resize(end + (b.slots - a.slots));
  for (uint32_t i = a.slots; i < b.slots; ++i) walk.memory.slots[end++] = shift_slot(slots, walk.memory.slots[i], by);
  end = walk.memory.tape_slots.size();
  walk.memory.tape_slots.resize(end + (b.tape_slots - a.tape_slots));
  for (uint32_t i = a.tape_slots; i < b.tape_slots; ++i)
    walk.memory.tape_slots[end++] = {move_slot(slots, walk.memory.tape_slots[i].slot),
                                     walk.memory.tape_slots[i].layout};
  for (uint32_t i = a.segments; i < b.segments; ++i) walk.memory.segments.push_back(Segment(walk.memory.segments[i]));
  for (uint32_t i = a.tape; i < b.tape; ++i) {
    walk.memory.tape.push_back(walk.memory.tape[i]);
    TapeEntry& entry = walk.memory.tape.back();
    if (entry.node != kNoId) entry.node = moved(entry.node, stack.nodes, by);
    entry.in_begin += tape_slots;
    entry.in_end += tape_slots;
    entry.out_begin += tape_slots;
    entry.out_end += tape_slots;
    entry.segments_begin += segments;
    entry.segments_end += segments;
    entry.module = move_module(entry.module, by);
  }
  for (uint32_t i = a.boundary_slots; i < b.boundary_slots; ++i) {
    BoundarySlot next = walk.memory.boundary_slots[i];
    next.value.module = move_module(next.value.module, by);
    next.slot = move_slot(slots, next.slot);
    walk.memory.boundary_slots.push_back(next);
  }
  if (walk.out.trace != nullptr) {
    const uint32_t trace_slots = distance * (b.trace_slots - a.trace_slots);
    end = walk.out.trace->slots.size();
    walk.out.trace->slots.resize(end + (b.trace_slots - a.trace_slots));
    for (uint32_t i = a.trace_slots; i < b.trace_slots; ++i)
      walk.out.trace->slots[end++] = move_slot(slots, walk.out.trace->slots[i]);
    end = walk.out.trace->ops.size();
    walk.out.trace->ops.resize(end + (b.trace_ops - a.trace_ops));
    for (uint32_t i = a.trace_ops; i < b.trace_ops; ++i) {
      TracedOp& op = walk.out.trace->ops[end++] = walk.out.trace->ops[i];
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
    walk.memory.slot_of[at] = move_slot(slots, walk.memory.slot_of[v]);
    walk.memory.layout_of[at] = walk.memory.layout_of[v];
    walk.memory.sum_rule[at] = walk.memory.sum_rule[v];
  }
  const uint32_t size = stack.size + layer * stack.sizes;
  for (uint32_t s = size; s < size + stack.sizes; ++s)
    walk.memory.size_numbers[moved(s, stack.sizes, by)] = walk.memory.size_numbers[s];
}

void write_calls_again(Walk& walk, const LayerStack& stack, uint32_t layer, int64_t distance, size_t begin,
                       size_t end) {
  const Shift by{stack, layer, distance, 0};
  for (size_t i = begin; i < end; ++i) {
    CollectiveCall call = walk.out.calls[i];
    const ModuleId module = move_module(walk.out.call_modules[i], by);
    if (module != kNone) call.module = walk.in.model.modules[module].path;
    walk.out.calls.push_back(std::move(call));
    walk.out.call_modules.push_back(module);
  }
}

void reserve_layers(Walk& walk, const LayerStart& a, const LayerStart& b, uint32_t times) {
  const auto grow = [times](auto& list, size_t each) { list.reserve(list.size() + (times + 1) * each); };
  grow(walk.memory.slots, b.slots - a.slots);
  grow(walk.memory.tape, b.tape - a.tape);
  grow(walk.memory.tape_slots, b.tape_slots - a.tape_slots);
  if (walk.out.trace == nullptr) return;
  grow(walk.out.trace->ops, b.trace_ops - a.trace_ops);
  grow(walk.out.trace->slots, b.trace_slots - a.trace_slots);
}

uint32_t layer_at(const LayerStack& stack, uint32_t node) {
  if (node < stack.node || (node - stack.node) % stack.nodes != 0) return kNoId;
  const uint32_t layer = (node - stack.node) / stack.nodes;
  return layer <= stack.count ? layer : kNoId;
}

}  // namespace

uint32_t repeat_layers(Walk& walk, uint32_t node) {
  for (StackWalk& run : walk.memory.stacks) {
    const LayerStack& stack = *run.stack;
    const uint32_t layer = layer_at(stack, node);
    if (layer == kNoId || layer != run.marks.size()) continue;
    run.marks.push_back(mark_of(walk));
    if (layer == stack.count) continue;
    auto taken = taken_at(walk, stack, layer);
    const bool again = layer >= 2 && takes_the_same(walk, run, layer, taken) && can_repeat(walk, run, layer);
    run.taken = std::move(taken);
    if (!again) continue;
    run.first_identical = layer - 1;
    const LayerStart a = run.marks[layer - 1], b = run.marks[layer];
    reserve_layers(walk, a, b, stack.count - layer);
    if (walk.out.trace != nullptr)
      walk.out.trace->repeats.push_back({.count = stack.count - layer,
                                         .op = b.trace_ops,
                                         .ops = b.trace_ops - a.trace_ops,
                                         .value = b.slots,
                                         .values = b.slots - a.slots,
                                         .module = stack.module + layer * stack.modules,
                                         .modules = stack.modules});
    for (uint32_t distance = 1; layer - 1 + distance < stack.count; ++distance) {
      write_again(walk, run, layer - 1, distance);
      write_calls_again(walk, stack, layer - 1, distance, a.calls, b.calls);
      run.marks.push_back(mark_of(walk));
      ++walk.out.repeated;
    }
    return stack.node + stack.count * stack.nodes;
  }
  return node;
}

namespace {

bool same_grad(const Grad& a, const Grad& b) {
  return a.state == b.state && a.dim == b.dim && a.has_declared == b.has_declared && a.declared == b.declared &&
         a.layout == b.layout && a.cause == b.cause && a.rule == b.rule &&
         std::equal(a.segments.begin(), a.segments.end(), b.segments.begin(), b.segments.end(),
                    [](const GradSegment& x, const GradSegment& y) {
                      return x.begin == y.begin && x.end == y.end && x.state == y.state;
                    });
}

// Returns the slots that all layers use, to whose gradients each layer adds.
std::vector<SlotId> find_shared(const Walk& walk, const StackWalk& run) {
  const LayerStack& stack = *run.stack;
  const LayerStart &a = run.marks[run.first_identical], &b = run.marks[run.first_identical + 1];
  std::vector<SlotId> shared;
  for (uint32_t i = a.tape_slots; i < b.tape_slots; ++i) {
    const SlotId slot = walk.memory.tape_slots[i].slot;
    const bool is_of_layer =
        slot >= run.marks[run.first_identical - 1].slots || is_in(slot, stack.leaf, stack.leaves, run.first_identical);
    if (!is_of_layer) shared.push_back(slot);
  }
  std::sort(shared.begin(), shared.end());
  shared.erase(std::unique(shared.begin(), shared.end()), shared.end());
  return shared;
}

// Returns the gradients that have reached the next layer in backward order.
BackwardStack look_at(const Backward& b, const BackwardStack& back) {
  const StackWalk& run = *back.walked;
  const LayerStack& stack = *run.stack;
  BackwardStack now{.walked = back.walked,
                    .layer = back.layer,
                    .has_before = true,
                    .mark = mark_of(b.walk),
                    .grads = {},
                    .uses = {},
                    .shared = {},
                    .shared_slots = back.shared_slots};
  const SlotId first = run.marks[back.layer].slots, end = run.marks[back.layer + 1].slots;
  for (SlotId s = first; s < end; ++s) {
    if (!has_no_grad(b.grads[s])) now.grads.emplace_back(s - first, b.grads[s]);
  }
  const SlotId leaf = stack.leaf + back.layer * stack.leaves;
  for (uint32_t i = 0; i < stack.leaves; ++i) {
    if (!has_no_grad(b.grads[leaf + i])) now.grads.emplace_back(end - first + i, b.grads[leaf + i]);
    const uint32_t use = b.first_use[leaf + i];
    now.uses.push_back(use == kNoId ? kNoId : use - run.marks[back.layer].tape);
  }
  for (const SlotId slot : now.shared_slots) now.shared.push_back(b.grads[slot]);
  return now;
}

bool has_same_backward(const BackwardStack& a, const BackwardStack& b) {
  return has_no_report(a.mark, b.mark) && a.uses == b.uses &&
         std::equal(a.grads.begin(), a.grads.end(), b.grads.begin(), b.grads.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_grad(x.second, y.second); }) &&
         std::equal(a.shared.begin(), a.shared.end(), b.shared.begin(), b.shared.end(), same_grad);
}

// True if all earlier layers use their leaves as this one does, and none has the last use of a shared slot.
bool has_same_uses(const Backward& b, const BackwardStack& back) {
  const StackWalk& run = *back.walked;
  const LayerStack& stack = *run.stack;
  for (uint32_t layer = run.first_identical; layer < back.layer; ++layer) {
    for (uint32_t i = 0; i < stack.leaves; ++i) {
      const uint32_t use = b.first_use[stack.leaf + layer * stack.leaves + i];
      if ((use == kNoId ? kNoId : use - run.marks[layer].tape) != back.uses[i]) return false;
    }
  }
  return std::all_of(back.shared_slots.begin(), back.shared_slots.end(), [&](SlotId slot) {
    return b.first_use[slot] == kNoId || b.first_use[slot] < run.marks[run.first_identical].tape;
  });
}

// Copies the gradients that have been added in the layer after `layer` to all layers that repeat it backward.
void copy_arrivals(Walk& walk, const StackWalk& run, uint32_t layer) {
  if (walk.out.gradients == nullptr) return;
  std::vector<ArrivedGrads>& arrivals = walk.memory.arrivals;
  const auto begin = arrivals.begin() + run.marks[layer + 1].slots, end = arrivals.begin() + run.marks[layer + 2].slots;
  for (uint32_t to = run.first_identical; to <= layer; ++to)
    std::copy(begin, end, arrivals.begin() + run.marks[to].slots);
}

}  // namespace

std::vector<BackwardStack> begin_backward_stacks(const Backward& b) {
  std::vector<BackwardStack> stacks;
  for (const StackWalk& run : b.walk.memory.stacks) {
    const bool did_the_same = run.first_identical != kNoId && run.marks.size() == run.stack->count + 1;
    if (!did_the_same || run.marks[run.first_identical].tape == run.marks[run.first_identical + 1].tape) continue;
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

size_t repeat_layers_backward(Backward& b, std::vector<BackwardStack>& stacks, size_t end) {
  for (BackwardStack& back : stacks) {
    const StackWalk& run = *back.walked;
    const LayerStack& stack = *run.stack;
    if (back.layer < run.first_identical || back.layer == kNoId || end != run.marks[back.layer + 1].tape) continue;
    BackwardStack now = look_at(b, back);
    const bool again = back.has_before && has_same_backward(back, now) && has_same_uses(b, now);
    const LayerStart before = back.mark;
    back = std::move(now);
    --back.layer;
    if (!again) continue;
    const uint32_t layer = back.layer + 1;  // the next layer, which repeats the following one
    for (uint32_t distance = 1; layer + 1 - distance >= run.first_identical; ++distance) {
      write_calls_again(b.walk, stack, layer + 1, -static_cast<int64_t>(distance), before.calls, back.mark.calls);
      ++b.walk.out.repeated_backward;
    }
    copy_arrivals(b.walk, run, layer);
    // The gradients of this layer are also those of the layer before the repeated ones.
    const uint32_t made = run.marks[layer + 1].slots - run.marks[layer].slots, below = run.first_identical - 1;
    for (auto& [slot, grad] : back.grads)
      b.grads[slot < made ? run.marks[below].slots + slot : stack.leaf + below * stack.leaves + slot - made] =
          std::move(grad);
    back.layer = kNoId;
    return run.marks[run.first_identical].tape;
  }
  return end;
}

}  // namespace tpplan
