// Layouts and collectives at the inputs and outputs of each module with a rule, forward and backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "resolve/match/match_table.h"
#include "sharding/steps.h"

namespace tpplan {

// Layouts of an input or output, with one placement per mesh axis. If both are absent (a `null` placeholder), the value
// is not changed; if only `to` is absent, the value is annotated and not redistributed.
struct ValueBoundary {
  int arg = 0;
  std::string kwarg;  // empty: positional
  std::optional<std::vector<Placement>> from, to;
  std::optional<GradientLayouts> gradient;  // absent: no gradient
  std::optional<bool> use_local;            // true: the value becomes a local tensor
  std::vector<Step> forward, backward;
  // The dtypes of communication, as in DTensor.redistribute (torch 2.13, tensor/_api.py). The value is cast before its
  // collectives and stays in that dtype. Its gradient is cast before its collectives and returns in the original dtype.
  // Absent: no cast.
  std::optional<DType> forward_dtype, backward_dtype;
};

// The inputs and outputs of a module under a rule. Modules of the same rule share one or two of these layouts.
struct BoundaryLayout {
  RuleId rule = 0;
  std::vector<ValueBoundary> inputs, outputs;
};

struct ModuleBoundary {
  ModuleId module = 0;
  uint32_t layout = 0;  // into BoundaryTable::layouts
};

struct BoundaryTable {
  std::vector<BoundaryLayout> layouts;
  std::vector<ModuleBoundary> modules;
};

// Returns the boundaries in the order of the match table. On axes other than the rule's, a value is sharded along the
// batch if `data` specifies it, else replicated. Which gradients are partial is a heuristic from the module tree; a
// walk of the operations replaces it (walked_gradients.h). Reports uneven outputs that become local tensors (TP5017),
// keywords that no call passes (TP5022), a batch dim that no input has (TP5023), and dtypes without a collective
// (TP3018).
[[nodiscard]] BoundaryTable infer_boundaries(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                             Diagnostics& diagnostics);

// Sets the layouts of a value's gradient, its collectives, and their dtype.
void set_gradient(const TpPlan& plan, const PlanRule& rule, ValueBoundary& value, const GradientLayouts& gradient);

// Returns the text of `--print boundaries`: each module with the layouts of its inputs and outputs.
[[nodiscard]] std::string dump(const BoundaryTable& table, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
