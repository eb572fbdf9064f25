// What a loss and the gradients behind it make of each other over the axes along which every rank has data of its own,
// or the same as the others: by the plan alone.
#pragma once

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"
#include "match/match_plan.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

// `loss` is the plan's, resolved. Reports TP5120 where the model's operations have no such output; TP5117 for an axis
// over which gradients come out as many times too large or too small as it has ranks, TP5119 where they are right only
// if all ranks count alike, and TP5118 for an axis along which nothing differs between ranks. To `infer` needs no
// gradients: then TP5120 only.
void check_loss(const TpPlan& plan, const ModelGraph& graph, const Loss& loss, const MatchTable& matches,
                const ShardingTable& table, bool infer, Diagnostics& diagnostics);

// Reports TP5117 or TP5119 for one axis along which ranks have terms of their own; `joined` is what becomes of their
// gradients. Nothing where they come out right.
void report_scale(const TpPlan& plan, const Loss& loss, AxisId axis, Reduction joined, Diagnostics& diagnostics);

// Reports TP5118 for an axis of the loss along which every rank computes the same one. `result` is what the ranks have
// of it, in words.
void report_repeated(const TpPlan& plan, AxisId axis, std::string_view result, Diagnostics& diagnostics);

}  // namespace tpplan
