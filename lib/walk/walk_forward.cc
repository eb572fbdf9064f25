#include "walk/walk_forward.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "walk/layers/model_tables.h"
#include "walk/operation/operations.h"
#include "walk/report/example.h"
#include "walk/report/list_operations.h"
#include "walk/run/bind_leaves.h"
#include "walk/run/repeat_layers.h"
#include "walk/run/sequence_exchange.h"
#include "walk/state/slots.h"
#include "walk/state/trace_step.h"
#include "walk/state/walk_memory.h"
#include "walk/state/walk_state.h"

namespace tpplan {
namespace {

// Sets the outputs of a module without walking it. Returns the index of its exit.
uint32_t skip_module(Walk& walk, uint32_t enter) {
  const OpGraph& graph = walk.in.graph;
  uint32_t exit = enter;
  for (size_t depth = 1; depth > 0;) {
    ++exit;
    if (graph.nodes[exit].kind == NodeKind::Enter) ++depth;
    if (graph.nodes[exit].kind == NodeKind::Exit) --depth;
  }
  const auto inputs = crossings_of(graph, graph.nodes[enter]);
  for (const Crossing& output : crossings_of(graph, graph.nodes[exit])) {
    const uint32_t shape = graph.values[output.to].shape;
    const auto same =
        std::ranges::find_if(inputs, [&](const Crossing& input) { return graph.values[input.from].shape == shape; });
    if (same != inputs.end())
      set_slot(walk, output.to, walk.memory.slot_of[same->from]);
    else
      set_slot(walk, output.to,
               new_slot(walk, {.layout = walk.memory.tables.replicated_by_shape[shape], .value = output.to}));
  }
  return exit;
}

// True for a head count of the model file that repeats an attribute of the code under the file's own name.
bool is_alias(const std::pair<std::string_view, int64_t>& attribute, const std::vector<int64_t>& divided) {
  return (attribute.first == "num_heads" || attribute.first == "num_kv_heads") &&
         std::ranges::count(divided, attribute.second) > 0;
}

// Lists the numbers that the code of modules divides by the ranks of the plan's axis, if the walk covers this axis.
void begin_counts(Walk& walk) {
  walk.memory.counts.clear();
  walk.memory.counts_of_module.clear();
  const auto axis = std::ranges::find(walk.in.axes, walk.in.plan.axis);
  if (axis == walk.in.axes.end() || walk.in.matches.patterns.local_modules.empty()) return;
  walk.memory.counts_of_module.assign(walk.in.model.modules.size(), kNoId);
  for (const LocalModule& local : walk.in.matches.patterns.local_modules) {
    LocalCounts counts{.divided = {},
                       .undivided = {},
                       .ranks = walk.in.plan.mesh.axes[*axis].size,
                       .axis = AxisMask{1} << (axis - walk.in.axes.begin())};
    for (const auto& [name, value] : local.divided) counts.divided.push_back(value);
    for (const auto& attribute : walk.in.model.attributes[walk.in.model.modules[local.module].attributes].integers) {
      if (std::ranges::find(local.divided, attribute) == local.divided.end() && !is_alias(attribute, counts.divided))
        counts.undivided.push_back(attribute.second);
    }
    walk.memory.counts_of_module[local.module] = static_cast<uint32_t>(walk.memory.counts.size());
    walk.memory.counts.push_back(std::move(counts));
  }
}

}  // namespace

void begin_walk(Walk& walk) {
  std::vector<size_t> sizes;
  for (const AxisId axis : walk.in.axes) sizes.push_back(static_cast<size_t>(walk.in.plan.mesh.axes[axis].size));
  prepare_walk_tables(walk.memory.tables, walk.memory.table, walk.in.graph, std::move(sizes));
  walk.memory.slots.clear();
  walk.memory.tape.clear();
  walk.memory.tape_slots.clear();
  walk.memory.segments.clear();
  walk.memory.boundary_slots.clear();
  walk.memory.declared_by_sharding.clear();
  walk.memory.rules_of_module.clear();
  walk.memory.untied.clear();
  walk.memory.programs = {};
  walk.memory.frames.clear();
  walk.memory.stacks.clear();
  walk.memory.facts.clear();
  walk.memory.same_integers.clear();
  walk.memory.slot_of.assign(walk.in.graph.values.size(), kNoId);
  walk.memory.layout_of.assign(walk.in.graph.values.size(), 0);
  walk.memory.size_numbers.assign(walk.in.graph.sizes.size(), kNoId);
  walk.memory.rule_of_module.assign(walk.in.model.modules.size(), kNoRule);
  for (const BoundaryMatch& match : walk.in.matches.boundaries) {
    const AxisId axis = walk.in.plan.rules[match.rule].axis;
    if (std::find(walk.in.axes.begin(), walk.in.axes.end(), axis) != walk.in.axes.end())
      walk.memory.rule_of_module[match.module] = match.rule;
  }
  begin_counts(walk);
  walk.memory.value_of_param.assign(walk.in.model.params.size(), kNoId);
  walk.memory.sum_rule.assign(walk.in.graph.values.size(), kNoRule);
  if (walk.out.listing != nullptr || walk.out.examples != nullptr) return;  // they need every layer
  for (const LayerStack& stack : walk.in.model_tables.stacks) walk.memory.stacks.push_back({.stack = &stack});
}

void walk_forward(Walk& walk) {
  list_axes(walk);
  bind_leaves(walk);
  if (!walk.memory.untied.empty() || std::ranges::count(walk.in.sharded_result_of, ShardedResult::Skip) > 0)
    walk.memory.stacks.clear();
  for (uint32_t i = 0; i < walk.in.graph.nodes.size() && walk.out.crash == kNoId; ++i) {
    if (!walk.memory.stacks.empty()) i = repeat_layers(walk, i);
    if (i == walk.in.graph.nodes.size()) break;
    if (sharded_result_of(walk, i) == ShardedResult::Skip) {
      i = skip_module(walk, i);
      continue;
    }
    const GraphNode& node = walk.in.graph.nodes[i];
    if (node.kind == NodeKind::Op) list_sequence_exchange(walk, node);
    if (node.kind == NodeKind::Enter) trace_boundary(walk, node, i);
    if (node.kind == NodeKind::Enter)
      walk.in.runtime.enter(walk, node);
    else if (node.kind == NodeKind::Exit)
      walk.in.runtime.exit(walk, node);
    else
      run_node(walk, node, i);
    if (node.kind == NodeKind::Exit) trace_boundary(walk, node, i);
    if (node.kind != NodeKind::Op && walk.out.crash == kNoId) list_boundary(walk, node);
    if (walk.out.crash == kNoId || walk.out.examples == nullptr || walk.out.causes[walk.out.crash].unknown) continue;
    Cause& cause = walk.out.causes[walk.out.crash];
    if (cause.example.rows.empty()) cause.example = crash_example(walk, node, cause.reason);
  }
}

}  // namespace tpplan
