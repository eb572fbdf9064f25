// Warnings about rules that shard a dim of a JAX or Keras program that is not meant to be sharded.
#pragma once

#include "suggest/spec_trials.h"

namespace tpplan {

// Reports, however few bytes it costs, with an edit that was tried:
// - a sharded head_dim (TP5128)
// - a sharded dim that the program splits into parts, as a fused projection (TP5129)
// - a sharded dim that stacks the layers of a loop (TP5130); not if a short spec was reported (TP5029)
// - weights sharded over the axis of the batch while another axis of the mesh shards nothing (TP5131)
void check_program_dims(SpecTrials& trials, const CheckResult& result, Diagnostics& diagnostics);

}  // namespace tpplan
