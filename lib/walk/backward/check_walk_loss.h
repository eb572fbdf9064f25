// The check of the loss computation: the layout of the result from which the ranks compute their losses.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Returns true if the losses of the ranks make up the loss of a single process. Each rank computes a loss from its
// result, which must be replicated, or sharded along the axes over which the plan adds losses. Its last dim are the
// classes, which must not be sharded unless it is a DTensor. Torch then computes the loss over all ranks, in
// loss_parallel() if the plan specifies it, whose calls are listed. A single number is the loss itself, and can be
// partial along the axes of the loss.
//
// @pre the plan has a loss and the result is not wrong. Reports TP5115 to TP5118 and TP5121 on request.
[[nodiscard]] bool check_walk_loss(Walk& walk, bool is_reporting);

// Returns the value from which the loss is computed; kNoId if the model has no such result.
[[nodiscard]] ValueId loss_input(const Walk& walk);

}  // namespace tpplan
