// What each operation makes of the layouts of its operands: tables of rules, and a file for each that needs code.
#pragma once

#include "ops/op_call.h"

namespace tpplan {

using OpRule = void (*)(OpCall&, OpResult&);

// The rule of an op by its name; nullptr where there is none. The model's own rules (OpGraph::rules) go first.
[[nodiscard]] OpRule find_rule(std::string_view name);

// Every name that has a row, once.
[[nodiscard]] std::vector<std::string_view> ruled_ops();

// Sets the call's name and arguments, as rules want them.
void begin_call(OpCall& call);
// The dims that an operation of the table of dims goes along, as a flag for each of its operand's.
[[nodiscard]] std::vector<bool> dims_along(const OpCall& call);

// Runs the op's rule on the truth of its operands (claims are not looked at). Results have recorded shapes where all is
// whole. Sets `unknown` where no rule describes the op.
[[nodiscard]] OpResult run_rule(OpCall& call);

// ---- by notation (notation.h) ----
void rule_factors(OpCall& call, OpResult& result);
void rule_matmul(OpCall& call, OpResult& result);
void rule_einsum(OpCall& call, OpResult& result);

// ---- by table ----
[[nodiscard]] bool find_pointwise(std::string_view name, Linearity& linearity);
void add_pointwise_names(std::vector<std::string_view>& names);
void rule_pointwise(OpCall& call, OpResult& result);
[[nodiscard]] bool is_dim_op(std::string_view name);
void add_dim_names(std::vector<std::string_view>& names);
// The words between the blanks of a row.
void add_words(std::string_view row, std::vector<std::string_view>& names);
void rule_dim(OpCall& call, OpResult& result);
void rule_fill(OpCall& call, OpResult& result);

// ---- by code, a file each ----
void rule_view(OpCall& call, OpResult& result);
void rule_expand(OpCall& call, OpResult& result);
void rule_permute(OpCall& call, OpResult& result);
void rule_getitem(OpCall& call, OpResult& result);
void rule_setitem(OpCall& call, OpResult& result);
void rule_pieces(OpCall& call, OpResult& result);
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

}  // namespace tpplan
