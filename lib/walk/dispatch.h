// Experts of which each rank has some (`ep_dispatch_experts` on their module, `grouped_gemm` on their weights): tokens
// go to the experts that the router chose, wherever they are. What a rank computes of a token is known only from data,
// what comes out is what all experts together give: the module's operations are walked on whole weights, and the calls
// that bring tokens there and back are listed beside.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// False, with the reason reported as the end of the run, where the weights of the module do not have the same whole
// experts.
[[nodiscard]] bool check_experts(Walk& walk, ModuleId module, RuleId rule);
// A parameter of theirs as all ranks together have it.
[[nodiscard]] SlotId join_experts(Walk& walk, SlotId slot, RuleId rule);
// Whether this is the argument that says which experts each token goes to: forward(tokens, chosen, weights).
[[nodiscard]] inline bool is_chosen(const Crossing& c) { return c.depth == 1 && (c.position == 1 || c.parameter == 1); }
// A tensor that the module is given: every rank must have all tokens.
[[nodiscard]] SlotId dispatch_tokens(Walk& walk, SlotId slot, RuleId rule);
// What the module gives, after its forward.
[[nodiscard]] SlotId combine_tokens(Walk& walk, SlotId slot, const ModuleFrame& frame);
// What the ranks call when gradients go back over a Dispatch or a Combine.
void list_dispatch_back(Walk& walk, const TapeEntry& entry);

}  // namespace tpplan
