// What XLA's partitioner does otherwise than Shardy's list says, as far as rules reproduce it.
#pragma once

#include "programs/insert_reshards.h"

namespace tpplan::programs {

// Rules that were chosen by comparing the wire bytes of compiled programs:
// - A contraction that both operands of a product shard alike stays so.
// - An operand that shards the contraction alone is gathered if that sends less than the sum of the result.
// - A dim that an operand shards and the result does not is gathered where it is smaller.
// - A batch dim that an operand and the result shard alike stays so if the other operand has its axes elsewhere.
// - Slices and pads of sharded dims send a permute of the result's shard for each distance between owners.
// - Axes of a dim that must be replicated are gathered; Shardy moves them to a batch dim.
// - A value is brought to one layout once in each block.
extern const ReshardRules kXlaRules;

}  // namespace tpplan::programs
