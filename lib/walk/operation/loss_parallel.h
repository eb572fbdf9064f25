// Operations inside torch's loss_parallel().
#pragma once

#include "walk/dtensor/dtensor_run.h"

namespace tpplan {

// True if the plan's loss is inside loss_parallel(), which replaces this operation.
[[nodiscard]] bool is_in_loss_parallel(const Walk& walk, OpId op);

// True if loss_parallel() computes the operation: a log_softmax, cross_entropy or nll_loss of class shards. It makes a
// replicated DTensor of plain targets.
[[nodiscard]] bool is_parallel_loss(const DtensorRun& run);

// Runs such an operation. Every rank computes the loss of all classes, without a gather.
void run_parallel_loss(DtensorRun& run);

// Reports a log_softmax of class shards whose gradient loss_parallel() leaves out: its backward returns the gradient of
// the result, because that of nll_loss includes the one of log_softmax (torch 2.13, tensor/parallel/loss.py).
void check_log_softmax(const DtensorRun& run);

}  // namespace tpplan
