// Check of the data dim: the model computes each part of it as it computes all of it.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "walk/state/walk_memory.h"

namespace tpplan {

struct ModelTables;

// Why outputs of a model are wrong on parts of a dim, by dim and `data.attention`; empty if they are right. It depends
// on the model only, so that a search walks once for all of its plans.
using DataDimCauses = std::map<std::pair<int, SequenceAttention>, std::optional<Cause>>;

// Reports TP5124 if an operation of the model combines elements along the dim that `data` shards: attention, a
// reduction or positions across it differ on parts of the dim. BatchNorm in training is a warning (TP5125), because
// data-parallel training usually accepts statistics of the local batch.
//
// Walks the forward pass of the unsharded model on two ranks (or another divisor of the dim) that have parts of all
// inputs with the dim. Reports nothing if the traced dim has size 1, or if the walk fails: the model may contain the
// traced size as a constant. Parameters and outputs are not checked: gradients and outputs of different data are
// reduced by the runtime. `known` are the results of earlier calls for the model.
void check_data_dim(const TpPlan& plan, const ModelGraph& model, const ModelTables& tables, DataDimCauses& known,
                    Diagnostics& diagnostics);

}  // namespace tpplan
