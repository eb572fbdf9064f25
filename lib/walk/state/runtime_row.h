// How one runtime runs a plan: its hooks at module boundaries, and how operations see their operands.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "model/model_graph.h"
#include "model/op_graph.h"
#include "ops/value_layout.h"
#include "plan/dialects.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct Walk;

// Values that are replaced for one operation, with the slots to restore after it.
using ReplacedSlots = std::vector<std::pair<ValueId, uint32_t>>;

struct RuntimeRow {
  PlanRuntime runtime{};
  std::string_view name;  // as in `--runtime`
  bool one_axis = false;  // each axis is walked separately
  bool all_axes = false;  // walks every mesh axis, because the program names axes
  // Parameters are local shards that operations see through views (tools/python/tpplan/torch/views.py). If false, the
  // style converts them.
  bool shows_params = false;
  bool unties = false;  // unties the names of a tie that its rules match
  // True if the runtime gathers parameters over data axes and reduces their gradients there. If false, the wrapper of
  // the model (FSDP, DDP) does.
  bool has_data_axes = false;
  bool writes_views = false;  // operations may write to what to_local() returned while gradients are recorded
  // Runs before the first operation. Returns false after it has reported why the plan cannot run.
  bool (*prepare)(Walk&) = nullptr;
  // Returns the actual layout of a parameter and its declared placements. Sets the rule that determines them.
  ValueLayout (*param_layout)(Walk&, ParamId, RuleId& rule) = nullptr;
  void (*enter)(Walk&, const GraphNode&) = nullptr;
  void (*exit)(Walk&, const GraphNode&) = nullptr;
  // Runs before each operation and replaces operands. nullptr: operands are unchanged.
  void (*show_operands)(Walk&, const GraphNode&, ReplacedSlots&) = nullptr;
  // Runs an operation, and can call its rule. nullptr: run_by_rule runs it.
  void (*run_op)(Walk&, const GraphNode&, uint32_t index) = nullptr;
};

}  // namespace tpplan
