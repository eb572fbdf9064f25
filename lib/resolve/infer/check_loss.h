// Check of the scale of the loss against the gradient reduction over each axis, from the plan only.
#pragma once

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Checks the plan's resolved `loss`. If `infer` is true, gradients do not matter and only TP5120 is checked. Reports:
// - TP5120: the model's operations have no such output
// - TP5117: gradients are too large or too small by the size of an axis
// - TP5119: gradients are right only if all ranks have the same token count
// - TP5118: all ranks along an axis of the loss compute the same loss
void check_loss(const TpPlan& plan, const ModelGraph& graph, const Loss& loss, const MatchTable& matches,
                const ShardingTable& table, bool infer, Diagnostics& diagnostics);

// Reports TP5117 or TP5119 for an axis along which ranks have different tokens, unless the scale is right. `joined` is
// the reduction of their gradients.
void report_loss_scale(const TpPlan& plan, const Loss& loss, AxisId axis, Reduction joined, Diagnostics& diagnostics);

// Reports TP5118 for an axis of the loss along which every rank computes the same loss. `result` is the start of the
// message: what the ranks have in common.
void report_repeated_loss(const TpPlan& plan, AxisId axis, std::string_view result, Diagnostics& diagnostics);

}  // namespace tpplan
