// Which operations of a layer the backward pass computes again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_graph.h"
#include "topology/run.h"
#include "walk/state/step_trace.h"

namespace tpplan {

// The results that checkpointing keeps of a layer.
struct LayerPolicy {
  bool recomputes = false;   // false: all results are kept
  uint8_t saved = 0;         // of CheckpointedOps; every other result is computed again
  bool only_listed = false;  // `saved` lists what is computed again instead
  bool is_mm_only = false;   // torchtitan's selective policy: linears with a bias are neither saved nor counted
};

// Returns the policy for layer `number` of a stack, counted from 0.
[[nodiscard]] LayerPolicy layer_policy(const Run& run, int64_t number);

// The alias of each value: the value whose elements it shows. By slot of the trace.
using ValueRoots = std::vector<uint32_t>;

// Returns by position in `ops` whether the backward pass computes the operation again: a result that it needs is not
// kept, or an operation that is computed again needs it. So the last matmul of a layer is not computed again.
// `ops`: indices into StepTrace::ops, those of one layer in execution order.
[[nodiscard]] std::vector<bool> recomputed_ops(const StepTrace& trace, const OpGraph& graph, const ValueRoots& roots,
                                               std::span<const uint32_t> ops, const LayerPolicy& policy);

}  // namespace tpplan
