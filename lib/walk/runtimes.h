// Who runs a plan, as rows: what happens where modules begin and end, and how operations see their operands.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "ops/spread.h"
#include "plan/dialects.h"
#include "walk/walk_graph.h"

namespace tpplan {

struct Walk;

// Values that an operation sees otherwise, with what stands at their ids again once it is done.
using Shown = std::vector<std::pair<ValueId, uint32_t>>;

struct RuntimeRow {
  PlanRuntime runtime{};
  std::string_view name;  // as `--runtime` has it
  bool one_axis = false;  // each axis is walked by itself
  bool all_axes =
      false;  // every axis of the mesh is walked, of data and without cuts, too: the program names them itself
  // Parameters are pieces that operations see through views (tools/python/tpplan/torch/views.py); else they are what
  // the style made of them.
  bool shows_params = false;
  bool unties = false;  // names of a tie that its rules reach become tensors of their own
  // It gathers parameters over data axes and sums their gradients there; else that is the business of what wraps the
  // model.
  bool has_data_axes = false;
  // Before the first operation. False: the plan is not run at all, for a reason that was reported.
  bool (*prepare)(Walk&) = nullptr;
  // What ranks hold of a parameter, and its claim. Sets the rule that this comes from.
  Spread (*param_layout)(Walk&, ParamId, RuleId& rule) = nullptr;
  void (*enter)(Walk&, const GraphNode&) = nullptr;
  void (*exit)(Walk&, const GraphNode&) = nullptr;
  // Before each operation: what it sees of its operands. nullptr: what they are.
  void (*show_operands)(Walk&, const GraphNode&, Shown&) = nullptr;
  // In the place of the rules of operations, which it asks itself. nullptr: they are asked.
  void (*run_op)(Walk&, const GraphNode&, uint32_t index) = nullptr;
};

[[nodiscard]] std::span<const RuntimeRow> runtimes();
[[nodiscard]] const RuntimeRow& runtime_row(PlanRuntime runtime);

// ---- transformers_boundaries.cc ----
void enter_transformers_module(Walk& walk, const GraphNode& node);
void exit_transformers_module(Walk& walk, const GraphNode& node);

// ---- torch_boundaries.cc ----
[[nodiscard]] bool prepare_torch_run(Walk& walk);
[[nodiscard]] Spread torch_param_layout(Walk& walk, ParamId param, RuleId& rule);
void enter_torch_module(Walk& walk, const GraphNode& node);
void exit_torch_module(Walk& walk, const GraphNode& node);

// ---- tpplan_boundaries.cc ----
[[nodiscard]] bool prepare_tpplan_run(Walk& walk);
void enter_tpplan_module(Walk& walk, const GraphNode& node);
void exit_tpplan_module(Walk& walk, const GraphNode& node);
void show_tpplan_operands(Walk& walk, const GraphNode& node, Shown& shown);

// ---- shard_map_run.cc ----
// Whether the operations are those of one rank of jax.shard_map, with the collectives that it calls itself.
[[nodiscard]] bool is_shard_map_graph(const OpGraph& graph);
[[nodiscard]] Spread shard_map_param_layout(Walk& walk, ParamId param, RuleId& rule);
void cross_shard_map_module(Walk& walk, const GraphNode& node);
void run_shard_map_op(Walk& walk, const GraphNode& node, uint32_t index);

}  // namespace tpplan
