// Who runs a plan, as rows: what happens where modules begin and end, and how operations see their operands.
#pragma once

#include <vector>

#include "graph/op_graph.h"
#include "plan/dialects.h"

namespace tpplan {

struct Walk;

// Values that an operation sees otherwise, with what stands at their ids again once it is done.
using Shown = std::vector<std::pair<ValueId, uint32_t>>;

struct RuntimeRow {
  PlanRuntime runtime{};
  bool one_axis = false;  // each axis is walked by itself
  // Parameters are pieces that operations see through views (tools/python/tpplan/torch/views.py); else they are what
  // the style made of them.
  bool shows_params = false;
  // Before the first operation. False: the plan is not run at all, for a reason that was reported.
  bool (*prepare)(Walk&) = nullptr;
  void (*enter)(Walk&, const GraphNode&) = nullptr;
  void (*exit)(Walk&, const GraphNode&) = nullptr;
  // Before each operation: what it sees of its operands. nullptr: what they are.
  void (*show_operands)(Walk&, const GraphNode&, Shown&) = nullptr;
};

// nullptr: its plans are not walked.
[[nodiscard]] const RuntimeRow* find_runtime(PlanRuntime runtime);

// ---- transformers_boundaries.cc ----
void enter_transformers_module(Walk& walk, const GraphNode& node);
void exit_transformers_module(Walk& walk, const GraphNode& node);

// ---- tpplan_boundaries.cc ----
[[nodiscard]] bool prepare_tpplan_run(Walk& walk);
void enter_tpplan_module(Walk& walk, const GraphNode& node);
void exit_tpplan_module(Walk& walk, const GraphNode& node);
void show_tpplan_operands(Walk& walk, const GraphNode& node, Shown& shown);

}  // namespace tpplan
