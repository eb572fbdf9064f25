// Expert parallelism: each rank has some of the experts (`ep_dispatch_experts` on their module, `grouped_gemm` on their
// weights). Tokens are dispatched to the ranks of their experts, which the router chooses. What one rank computes
// depends on the data, but the output is that of all experts. So the module's operations are walked on full weights,
// and the calls that send tokens and outputs are listed separately.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Returns false after a crash if the parameters of the module do not shard their experts (dim 0) over the same axes, or
// if they are all replicated.
[[nodiscard]] bool check_experts(Walk& walk, ModuleId module, RuleId rule);
// Returns a parameter of the experts gathered from all ranks.
[[nodiscard]] SlotId gather_expert_param(Walk& walk, SlotId slot, RuleId rule);
// True for the argument with the expert ids of the tokens: forward(tokens, chosen, weights).
[[nodiscard]] inline bool is_expert_ids(const Crossing& c) {
  return c.depth == 1 && (c.position == 1 || c.parameter == 1);
}
// Dispatches an argument of the module. The result is wrong if it is not replicated: every rank must have all tokens.
[[nodiscard]] SlotId dispatch_tokens(Walk& walk, SlotId slot, RuleId rule);
// Combines the outputs of the experts, after the module's forward.
[[nodiscard]] SlotId combine_tokens(Walk& walk, SlotId slot, const ModuleFrame& frame);
// Lists the calls in the backward pass of a Dispatch or a Combine.
void list_dispatch_backward(Walk& walk, const TapeEntry& entry);

}  // namespace tpplan
