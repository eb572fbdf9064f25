// Strategies that torch chooses for matmuls and embeddings of DTensors. Each function sets the run's result and
// placements.
#pragma once

#include "walk/dtensor/dtensor_run.h"

namespace tpplan {

// Runs a linear or a matmul. Operands with more than two dims are viewed as matrices first, and their shards follow the
// view (at::linear, at::matmul; torch 2.13, _ops/_matrix_ops.py, mm and addmm). If the result is partial, each rank
// divides the bias, so that it is added once.
void run_linear(DtensorRun& run);
void run_matmul(DtensorRun& run);

// Runs an embedding. If the rows of the weight are sharded, each rank looks up those of the replicated ids that it has,
// and the result is partial (torch 2.13, _ops/_embedding_ops.py, MaskPartial). If the columns are sharded, so is the
// last dim of the result.
void run_embedding(DtensorRun& run);

}  // namespace tpplan
