// The rules of operations, which compute the layouts of results: tables, and a file for each rule that needs code.
#pragma once

#include "ops/op_row.h"

namespace tpplan {

// Sets the name and arguments of the call in the form that rules expect.
void prepare_call(OpCall& call);
// Returns a flag for each dim of the operand: true if an operation of dim_rules.cc covers it.
[[nodiscard]] std::vector<bool> dims_of_operation(const OpCall& call);

// Runs the rule of the operation, or the one in the model file (OpGraph::rules), on the actual layouts of its operands
// (declared placements are ignored). Sets `unknown` if there is no rule.
[[nodiscard]] OpResult run_rule(OpCall& call);

// ---- by table ----
void rule_pointwise(OpCall& call, OpResult& result);
void rule_dim(OpCall& call, OpResult& result);
void rule_fill(OpCall& call, OpResult& result);

// ---- by code, a file each ----
void rule_view(OpCall& call, OpResult& result);
void rule_expand(OpCall& call, OpResult& result);
void rule_permute(OpCall& call, OpResult& result);
void rule_getitem(OpCall& call, OpResult& result);
void rule_setitem(OpCall& call, OpResult& result);
void rule_split(OpCall& call, OpResult& result);
void rule_cat(OpCall& call, OpResult& result);
void rule_repeat(OpCall& call, OpResult& result);
void rule_pad(OpCall& call, OpResult& result);
void rule_index_along(OpCall& call, OpResult& result);
void rule_masked_scatter(OpCall& call, OpResult& result);
void rule_rearrange(OpCall& call, OpResult& result);
void rule_windows(OpCall& call, OpResult& result);
void rule_meshgrid(OpCall& call, OpResult& result);
void rule_similarity(OpCall& call, OpResult& result);
// Of notation, with what else torch asks of them.
void rule_convolution(OpCall& call, OpResult& result);
void rule_norm(OpCall& call, OpResult& result);
void rule_weight_norm(OpCall& call, OpResult& result);
void rule_channel_norm(OpCall& call, OpResult& result);
void rule_loss(OpCall& call, OpResult& result);
void rule_recurrent(OpCall& call, OpResult& result);
void rule_attention(OpCall& call, OpResult& result);
void rule_multihead(OpCall& call, OpResult& result);

[[nodiscard]] inline bool is_view(OpId op) { return op_row(op).rule == rule_view; }
[[nodiscard]] inline bool is_elementwise(OpId op) { return op_row(op).rule == rule_pointwise; }

}  // namespace tpplan
