#include "walk/run/bind_leaves.h"

#include <algorithm>

#include "walk/report/list_operations.h"
#include "walk/state/param_layouts.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

// Makes a tensor for each name of a tie if a rule matches one: torch registers a new parameter, which unties them.
void untie(Walk& walk, const Tie& tie, ValueId value) {
  std::vector<Slot> slots;
  bool untied = false;
  for (const ParamId id : tie.params) {
    Slot slot = walk.memory.slots[walk.memory.slot_of[value]];
    slot.origin = kNoRule;
    const ValueLayout layout = walk.in.runtime.param_layout(walk, id, slot.origin);
    untied = untied || layout.is_dtensor;
    slot.layout = intern(walk.memory.table, layout);
    slots.push_back(slot);
  }
  for (size_t i = 0; i < slots.size() && untied; ++i) walk.memory.untied[tie.params[i]] = new_slot(walk, slots[i]);
}

// Returns for each leaf the index distance to the same leaf of the previous layer; 0 if it has none.
std::vector<uint32_t> distances_to_previous_layer(const Walk& walk) {
  std::vector<uint32_t> distances(walk.in.graph.leaves.size(), 0);
  for (const StackWalk& run : walk.memory.stacks) {
    const LayerStack& stack = *run.stack;
    std::fill_n(distances.begin() + stack.leaf + stack.leaves, (stack.count - 1) * stack.leaves, stack.leaves);
  }
  return distances;
}

// True if all inputs of param_layout are equal for both parameters.
bool are_sharded_identically(const Walk& walk, ParamId a, ParamId b) {
  const Param &x = walk.in.model.params[a], &y = walk.in.model.params[b];
  const auto of_x = shape_of(walk.in.model, x), of_y = shape_of(walk.in.model, y);
  return walk.in.shardings.params[a].sharding == walk.in.shardings.params[b].sharding &&
         walk.in.matches.params[a].rule == walk.in.matches.params[b].rule &&
         walk.memory.rule_of_module[x.module] == walk.memory.rule_of_module[y.module] &&
         std::equal(of_x.begin(), of_x.end(), of_y.begin(), of_y.end());
}

// Returns the layout of an input, which is sharded if it has the data dim.
ValueLayoutId input_layout(Walk& walk, ValueId value, ValueLayoutId replicated) {
  const auto shape = shape_of(walk.in.graph, value);
  const auto dim = static_cast<size_t>(walk.in.data_dim);
  const bool has_dim = walk.in.data_dim >= 0 && dim < shape.size() && shape[dim] == walk.in.data_size;
  return has_dim ? sharded_layout(walk, shape, dim) : replicated;
}

}  // namespace

void bind_leaves(Walk& walk) {
  const bool is_common = walk.in.runtime.param_layout == param_layout;
  const std::vector<uint32_t> distances = distances_to_previous_layer(walk);
  for (size_t i = 0; i < walk.in.graph.leaves.size(); ++i) {
    const GraphLeaf& leaf = walk.in.graph.leaves[i];
    const GraphValue& value = walk.in.graph.values[leaf.value];
    const ParamId here = walk.in.model_tables.param_of_leaf[i];
    const ParamId before = distances[i] == 0 ? kNone : walk.in.model_tables.param_of_leaf[i - distances[i]];
    if (is_common && here != kNone && before != kNone && are_sharded_identically(walk, here, before)) {
      Slot slot = walk.memory.slots[i - distances[i]];  // leaves have the first slots
      slot.value = leaf.value;
      slot.requires_grad = value.requires_grad && !walk.in.infer;
      slot.param = here;
      if (slot.held != kNone) slot.held = here;
      walk.memory.value_of_param[here] = leaf.value;
      set_slot(walk, leaf.value, new_slot(walk, slot));
      continue;
    }
    Slot slot{.layout = walk.memory.tables.replicated_by_shape[value.shape],
              .value = leaf.value,
              .requires_grad = value.requires_grad && !walk.in.infer,
              .is_leaf = true};
    if (leaf.kind == LeafKind::Input) slot.layout = input_layout(walk, leaf.value, slot.layout);
    if (leaf.kind == LeafKind::Param) {
      const ParamId param = walk.in.model_tables.param_of_leaf[i];
      if (param != kNone) {
        walk.memory.value_of_param[param] = leaf.value;
        slot.param = param;
        ValueLayout layout = walk.in.runtime.param_layout(walk, param, slot.origin);
        if (slot.origin == kNoRule && layout.is_dtensor)
          slot.origin = walk.memory.rule_of_module[walk.in.model.params[param].module];
        if (walk.in.runtime.shows_params) {
          slot.held = param;
          layout.is_dtensor = false;
          layout.declared.clear();
          layout.declared_shape.clear();
        }
        slot.layout = intern(walk.memory.table, layout);
      }
    }
    set_slot(walk, leaf.value, new_slot(walk, slot));
    list_leaf(walk, leaf);
  }
  // All names of a tied tensor are one value.
  for (const Tie& tie : walk.in.model.ties) {
    ValueId value = kNoId;
    for (const ParamId id : tie.params)
      value = walk.memory.value_of_param[id] != kNoId ? walk.memory.value_of_param[id] : value;
    for (const ParamId id : tie.params) walk.memory.value_of_param[id] = value;
    if (walk.in.runtime.unties && value != kNoId) untie(walk, tie, value);
  }
}

}  // namespace tpplan
