// Sizes in a call that the module's code computes from attributes that it divides by the ranks of an axis. The trace
// has their global values.
#pragma once

#include <span>
#include <vector>

#include "ops/op_call.h"

namespace tpplan {

// Returns whether the code divides a literal: Local if it is the value of a divided attribute only, Either if it is
// also the value of another attribute, or a multiple of a divided one, such as `num_heads * head_dim`. A literal can
// equal an attribute by chance, so that callers decide by the layout of the operand where they can.
[[nodiscard]] LiteralUse literal_use(const LocalCounts& counts, int64_t literal);

// True if the operation has sizes among its arguments that sizes_at reads.
[[nodiscard]] bool has_counts(OpId op);

// Returns the sizes at an argument as numbers_at does, with `use` of literals. None is divided yet.
[[nodiscard]] std::vector<PerRankNumber> sizes_at(const OpCall& call, size_t position, std::string_view keyword);

// Divides a size on all ranks.
void divide_by_ranks(const OpCall& call, PerRankNumber& size);

}  // namespace tpplan
