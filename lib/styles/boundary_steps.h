// The steps of a style at the inputs and outputs of a module, for each runtime.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sharding/placement.h"

namespace tpplan {

enum class StepKind : uint8_t {
  FromLocal,          // plain tensor to DTensor with this placement; a DTensor is unchanged
  FromLocalSized,     // the same; the global size is the module's width
  FromLocalCounted,   // the same; the global size is the sum of local sizes, and shards must be those of torch.chunk
  Redistribute,       // redistributes a DTensor to this placement; torch: if the declared one differs
  RedistributeOther,  // torch: the same, if the actual placement differs
  ToLocal,            // DTensor to local tensor; torch: if `use_local_output` is true
  ToLocalPartial,     // the same; its gradient is declared Partial
  SumGradient,        // all-reduces the gradient, without DTensor
  SumValue,           // all-reduces the value in place, without DTensor
  Divide,             // divides the value by the number of ranks
  SumTailGradient,    // all-reduces the gradient of the last qk_rope_head_dim elements
  GatherSegments,     // gathers the plain shard of the module's fused result
  Cast,               // casts the value to the dtype in which it is sent
};

// True if a step changes the layout of a value. The manifest's `input` and `output` specify such a step, and cannot
// specify the others.
[[nodiscard]] constexpr bool has_layout(StepKind kind) {
  return kind != StepKind::Divide && kind != StepKind::SumTailGradient && kind != StepKind::Cast;
}

struct BoundaryStep {
  StepKind kind;
  std::span<const Placement> placements{};  // by axis of the walk; empty: the rule's options specify it
};
using Steps = std::span<const BoundaryStep>;

[[nodiscard]] constexpr bool has_step(Steps steps, StepKind kind) {
  return std::any_of(steps.begin(), steps.end(), [kind](const BoundaryStep& step) { return step.kind == kind; });
}

// What a style's hooks require of the call of a module. They raise an error for other calls.
struct CallRequirements {
  bool takes_first = false;    // requires a tensor as args[0], even if it does not change it
  bool output_is_one = false;  // requires a single tensor as result
};

// The steps of a Linear if gradients are disabled: it runs on plain local shards without DTensors, with in-place sums.
struct InferencePath {
  Steps input{};
  Steps output{};
  bool hides_bias = false;  // runs without the bias, which is added once after the sum
};

// The hooks of transformers 5.23, distributed/tensor_parallel.py.
struct TransformersSteps {
  Steps input{};   // of args[0]
  Steps second{};  // of args[2]
  Steps output{};
  CallRequirements call{};
  bool local_params = false;            // the module sees its parameters as plain local shards
  bool sums_params = false;             // all-reduces complete gradients of parameters, without DTensor
  bool dispatches_experts = false;      // dispatches tokens to experts (walk/run/dispatch.h)
  const InferencePath* fast = nullptr;  // nullptr: no fast path
};

// The hooks of torch 2.13, distributed/tensor/parallel/style.py. Options of the rule replace the placements.
struct TorchSteps {
  Steps input{};
  Steps ids{};  // input of an Embedding, if it differs
  Steps output{};
};

// tpplan.torch redistributes values to the layouts in the manifest. Steps without a layout are done in addition.
struct TpplanSteps {
  Steps input{};  // of the first argument
  Steps output{};
  bool runs_locally = false;        // computes on local shards as plain tensors
  bool dispatches_experts = false;  // dispatches tokens to experts (walk/run/dispatch.h)
};

}  // namespace tpplan
