// What happens to the values that enter and leave each module with a rule: layouts and collectives, forward and
// backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "match/match_plan.h"
#include "sharding/steps.h"

namespace tpplan {

// One argument or result. Layouts have one placement a mesh axis; absent: the value is left alone (a `null`
// placeholder), or is only annotated when just `to` is absent.
struct ValueBoundary {
  int arg = 0;
  std::string kwarg;  // empty: positional
  std::optional<std::vector<Placement>> from, to;
  std::optional<GradientLayouts> gradient;  // absent: it has none
  std::optional<bool> use_local;            // whether the value goes on as a local tensor
  std::vector<Step> forward, backward;
  // In which what moves is sent, as DTensor.redistribute takes them (torch 2.13, tensor/_api.py): the value is cast
  // before its steps and goes on in that type; its gradient is cast before its own, and goes on in the value's old
  // type. Absent: the steps run in the type that the value came in.
  std::optional<DType> forward_dtype, backward_dtype;
};

// What a rule does at the boundary of a kind of module: modules under one rule share one or two of these.
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

// In the order of the match table's boundaries. On axes other than the rule's a value is cut along the batch where
// `data` says so and replicated elsewhere. Reports uneven outputs that leave as local tensors (TP5017) token ids
// that torch's RowwiseParallel gathers (TP5020), keywords that never come (TP5022), a batch along a dim that no input
// has (TP5023), and types that nothing is sent in (TP3018).
[[nodiscard]] BoundaryTable infer_boundaries(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                             Diagnostics& diagnostics);

// `--print boundaries`: each module with what happens to its inputs and outputs.
[[nodiscard]] std::string dump(const BoundaryTable& table, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
