#include "search/cut_layers.h"

#include <algorithm>
#include <utility>

namespace tpplan {
namespace {

// The ids of one kind: those of a layer begin at `begin` + `stride` x its number.
struct IdRange {
  uint64_t begin = 0, stride = 0, keep = 0, count = 0;
};

bool is_dropped(const IdRange& range, uint64_t id) {
  return id >= range.begin + range.keep * range.stride && id < range.begin + range.count * range.stride;
}

// Returns the id in the cut model. An id of a dropped layer becomes that of the layer as far from the end.
template <typename Id>
void move_id(const IdRange& range, Id& id) {
  const auto old = static_cast<uint64_t>(id);
  if (old >= range.begin + range.keep * range.stride)
    id = static_cast<Id>(old - (range.count - range.keep) * range.stride);
}

template <typename Item>
void drop_items(std::vector<Item>& items, const IdRange& range) {
  const auto at = items.begin() + static_cast<std::ptrdiff_t>(range.begin + range.keep * range.stride);
  items.erase(at, at + static_cast<std::ptrdiff_t>((range.count - range.keep) * range.stride));
}

struct Cutting {
  IdRange nodes, values, sizes, modules, params, leaves;
};

void cut_graph(OpGraph& graph, const Cutting& cut) {
  drop_items(graph.nodes, cut.nodes);
  drop_items(graph.values, cut.values);
  drop_items(graph.sizes, cut.sizes);
  drop_items(graph.leaves, cut.leaves);
  const auto move_operand = [&](SizeOperand& operand) {
    if (operand.is_entry) move_id(cut.sizes, operand.number);
  };
  for (SizeEntry& entry : graph.sizes) {
    if (entry.op == SizeOp::Size) {
      move_id(cut.values, entry.a.number);
      continue;
    }
    move_operand(entry.a);
    move_operand(entry.b);
  }
  for (GraphLeaf& leaf : graph.leaves) move_id(cut.values, leaf.value);
  for (GraphArg& arg : graph.args) {
    if (arg.kind == ArgKind::Value) move_id(cut.values, arg.id);
    if (arg.kind == ArgKind::Size) move_id(cut.sizes, arg.id);
  }
  for (ValueId& value : graph.outs) move_id(cut.values, value);
  for (ValueId& value : graph.outputs) move_id(cut.values, value);
  for (Crossing& crossing : graph.crossings) {
    move_id(cut.values, crossing.from);
    move_id(cut.values, crossing.to);
  }
  const auto of_dropped = [&](const SizeOperand& operand) {
    return operand.is_entry && is_dropped(cut.sizes, static_cast<uint64_t>(operand.number));
  };
  std::erase_if(graph.guards, [&](const GraphGuard& guard) { return of_dropped(guard.a) || of_dropped(guard.b); });
  for (GraphGuard& guard : graph.guards) {
    move_operand(guard.a);
    move_operand(guard.b);
  }
}

void cut_modules(ModelGraph& model, const Cutting& cut) {
  drop_items(model.modules, cut.modules);
  drop_items(model.params, cut.params);
  std::erase_if(model.buffers, [&](const Param& buffer) { return is_dropped(cut.modules, buffer.module); });
  for (Module& module : model.modules) {
    if (module.parent != kNone) move_id(cut.modules, module.parent);
    move_id(cut.params, module.first_param);
  }
  for (auto* params : {&model.params, &model.buffers}) {
    for (Param& param : *params) move_id(cut.modules, param.module);
  }
  for (Tie& tie : model.ties) {
    for (ParamId& param : tie.params) move_id(cut.params, param);
  }
  model.module_index = {};
  const auto path_of_module = [&](uint32_t id) { return model.modules[id].path; };
  for (ModuleId id = 0; id < model.modules.size(); ++id)
    std::ignore = insert(model.module_index, model.modules[id].path, id, path_of_module);
}

}  // namespace

ModelGraph cut_layers(const ModelGraph& model, const LayerStack& stack, uint32_t keep) {
  ModelGraph cut = model;
  const auto range = [&](uint64_t begin, uint64_t stride) {
    return IdRange{.begin = begin, .stride = stride, .keep = keep, .count = stack.count};
  };
  const Cutting cutting{.nodes = range(stack.node, stack.nodes),
                        .values = range(stack.value, stack.values),
                        .sizes = range(stack.size, stack.sizes),
                        .modules = range(stack.module, stack.modules),
                        .params = range(stack.param, stack.params),
                        .leaves = range(stack.leaf, stack.leaves)};
  cut_graph(cut.operations, cutting);
  cut_modules(cut, cutting);
  return cut;
}

}  // namespace tpplan
