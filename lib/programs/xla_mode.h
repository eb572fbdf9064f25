// What XLA's partitioner does otherwise than Shardy's list says, as far as rules reproduce it.
#pragma once

#include "programs/insert_reshards.h"

namespace tpplan::programs {

// Four rules, chosen by comparing the wire bytes of compiled programs. Products: a contraction that both operands shard
// alike stays so; an operand that shards it alone is gathered if that sends less than the sum of the result; a dim that
// an operand shards and the result does not is gathered where it is smaller. Slices and pads of sharded dims: a permute
// of the result's shard for each distance between owners.
extern const ReshardRules kXlaRules;

}  // namespace tpplan::programs
