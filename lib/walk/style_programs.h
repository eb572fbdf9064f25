// What a style does at the boundary of its module, as steps over a few primitives.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "infer/infer_boundaries.h"
#include "infer/sharding_table.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "sharding/placement.h"

namespace tpplan {

enum class StepKind : uint8_t {
  FromLocal,         // a plain tensor becomes a DTensor of this placement; a DTensor stays
  FromLocalSized,    // the same, a shard of the module's own width
  FromLocalCounted,  // the same, of the sizes that the ranks' pieces add up to; pieces must be torch.chunk's
  Redistribute,      // a DTensor is brought to this placement
  ToLocal,           // a DTensor becomes what the rank holds
  ToLocalPartial,    // the same; its gradient is taken for an open sum
  SumGradient,       // the gradient is summed over the ranks (native)
  SumValue,          // the value is summed over the ranks, in place (native)
  Divide,            // the value is divided by the number of ranks
  SumTailGradient,   // the gradient of the last qk_rope_head_dim elements is summed
  GatherSegments,    // a plain piece of the module's fused result becomes the whole
  Cast,              // the value in the type that it is sent in, without more
};

struct BoundaryStep {
  StepKind kind;
  std::span<const Placement> placements{};  // by axis of the walk
};

// What a style's hooks ask of the module's call; a call of another form raises an error in them.
struct CallForm {
  bool takes_first = false;    // asks for args[0], whether or not it changes it
  bool output_is_one = false;  // fails on a result that is no tensor
};

// Where no gradients are recorded a Linear runs on plain pieces: no DTensors, and sums in place.
struct FastPath {
  std::span<const BoundaryStep> input{};
  std::span<const BoundaryStep> output{};
  bool hides_bias = false;  // adds the bias once, after the sum
};

struct StyleProgram {
  std::string_view style;
  std::span<const BoundaryStep> input{};   // of args[0]
  std::span<const BoundaryStep> second{};  // of args[2]
  std::span<const BoundaryStep> output{};
  CallForm call{};
  bool local_params = false;       // the module sees its own parameters as plain pieces
  bool sums_params = false;        // the gradients of its own parameters are summed (native), once each is complete
  bool deals_experts = false;      // walk/dispatch.h
  const FastPath* fast = nullptr;  // nullptr: it has none
};

// The types in which a redistribution sends a value, and its gradient back; empty: each in the type that the value has.
struct SentTypes {
  std::string_view forward, backward;
};

struct LayoutStep {
  StepKind kind;
  std::vector<Placement> placements;
  SentTypes sent{};
};

// One argument or part of a result, and what is done to it.
struct ValueProgram {
  int position = 0;
  std::string_view key;  // a keyword argument's name; empty: by position
  RuleId rule = kNoRule;
  std::vector<LayoutStep> steps;
};

// What tools/python/tpplan/torch does with a module beside showing it its parameters (modules.py, boundaries.py).
struct ModuleProgram {
  RuleId rule = kNoRule;  // the first that names the module
  std::vector<ValueProgram> inputs, outputs;
  bool has_params = false;
  bool runs_locally = false;    // computes with its own pieces as plain tensors
  bool adds_bias_late = false;  // to the result, once its open sum is closed
  bool deals_experts = false;   // walk/dispatch.h
  std::string_view refused;     // why it is not run at all; empty: it is
};

// Modules of which all is alike that a program follows from share one.
struct ModulePrograms {
  std::vector<ModuleProgram> list;
  std::vector<uint32_t> of_module;  // by ModuleId, into `list`; empty: another runtime's
};

// `axes` are those that are walked.
[[nodiscard]] ModulePrograms build_tpplan_programs(const TpPlan& plan, const ModelGraph& model,
                                                   const BoundaryTable& boundaries, const ShardingTable& shardings,
                                                   std::span<const AxisId> axes);

// transformers 5.23, distributed/tensor_parallel.py. nullptr: the style has no program, the walk cannot say.
[[nodiscard]] const StyleProgram* find_transformers_program(std::string_view style);

}  // namespace tpplan
