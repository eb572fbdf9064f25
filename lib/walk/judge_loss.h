// The loss end: what the ranks have of the result that a loss is made of, and whether their losses are that of one
// process.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// Whether a loss of one process can be made of the result by every rank alone: all of it where every rank computes the
// loss, or pieces whose terms add up along axes of the loss. Its last dim are the classes of each term, which no rank
// may have a piece of, unless it is a DTensor: torch then computes the loss over all ranks, and where the plan says so,
// in loss_parallel(), whose calls are listed. A single number is the loss itself, and may be an open sum along these
// axes.
//
// @pre the plan has a loss and the result is not wrong. Reports TP5115 to TP5118 and TP5121 if asked for.
[[nodiscard]] bool judge_loss(Walk& walk, bool report_findings);

// The value that the loss is made of; kNoId where the model has no such result.
[[nodiscard]] ValueId loss_value(const Walk& walk);

}  // namespace tpplan
