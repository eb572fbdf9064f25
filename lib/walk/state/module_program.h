// What tpplan's runtime does to the inputs and outputs of a module.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "sharding/placement.h"
#include "styles/boundary_steps.h"

namespace tpplan {

// The dtypes in which a redistribution sends a value and its gradient; empty: the dtype of the value.
struct SentTypes {
  std::string_view forward, backward;
};

struct LayoutStep {
  StepKind kind;
  std::vector<Placement> placements;
  SentTypes sent{};
};

// The steps for one argument or for one part of a result.
struct ValueProgram {
  int position = 0;
  std::string_view key;  // a keyword argument's name; empty: by position
  RuleId rule = kNoRule;
  std::vector<LayoutStep> steps;
};

// What tools/python/tpplan/torch does to a module besides replacing its parameters by views (modules.py,
// boundaries.py).
struct ModuleProgram {
  RuleId rule = kNoRule;  // the first rule that matches the module
  std::vector<ValueProgram> inputs, outputs;
  bool has_params = false;
  bool runs_locally = false;        // computes with its local shards as plain tensors
  bool adds_bias_late = false;      // to the result, after its reduction
  bool dispatches_experts = false;  // dispatches tokens to experts (walk/run/dispatch.h)
  std::string_view rejected;        // why it cannot run; empty: it can
};

// Modules with equal facts share one program.
struct ModulePrograms {
  std::vector<ModuleProgram> list;
  std::vector<uint32_t> of_module;  // by ModuleId, into `list`; empty for other runtimes
};

}  // namespace tpplan
