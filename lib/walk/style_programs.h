// What a style does at the boundary of its module, as steps over a few primitives.
#pragma once

#include <span>
#include <string_view>

#include "sharding/placement.h"

namespace tpplan {

enum class StepKind : uint8_t {
  FromLocal,        // a plain tensor becomes a DTensor of this placement; a DTensor stays
  FromLocalSized,   // the same, a shard of the module's own width
  Redistribute,     // a DTensor is brought to this placement
  ToLocal,          // a DTensor becomes what the rank holds
  ToLocalPartial,   // the same; its gradient is taken for an open sum
  SumGradient,      // the gradient is summed over the ranks (native)
  SumValue,         // the value is summed over the ranks, in place (native)
  Divide,           // the value is divided by the number of ranks
  SumTailGradient,  // the gradient of the last qk_rope_head_dim elements is summed
};

struct BoundaryStep {
  StepKind kind;
  Placement placement{};
};

struct StyleProgram {
  std::string_view style;
  std::span<const BoundaryStep> input{};   // of args[0]
  std::span<const BoundaryStep> second{};  // of args[2]
  std::span<const BoundaryStep> output{};
  bool takes_first = false;    // asks for args[0], whether or not it changes it
  bool output_is_one = false;  // fails on a result that is no tensor
  bool local_params = false;   // the module sees its own parameters as plain pieces
  bool wraps_params = false;   // the module's own parameters become whole DTensors
  bool sums_params = false;    // the gradients of its own parameters are summed (native), once each is complete
  // Where no gradients are recorded a Linear runs on plain pieces.
  bool has_fast_path = false;
  std::span<const BoundaryStep> fast_input{};
  std::span<const BoundaryStep> fast_output{};
  bool hides_bias = false;  // the fast path adds the bias once, after the sum
};

// transformers 5.23, distributed/tensor_parallel.py. nullptr: the style has no program, the walk cannot say.
[[nodiscard]] const StyleProgram* find_transformers_program(std::string_view style);

}  // namespace tpplan
