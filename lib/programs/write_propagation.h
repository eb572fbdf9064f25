// The output of `tpplan propagate`.
#pragma once

#include <string>
#include <string_view>

#include "programs/propagate_program.h"

namespace tpplan::programs {

// Returns "all_reduce", "all_gather" and so on.
[[nodiscard]] std::string_view kind_name(ReshardKind kind);

// Returns schemas/propagation.schema.json: the shardings of all values, and the collectives.
[[nodiscard]] std::string propagation_json(const Propagation& propagation);

// Returns a table of Shardy's collectives, and the bytes that a rank sends in a step.
[[nodiscard]] std::string propagation_text(const Propagation& propagation);

// Returns the bytes that a rank sends for collectives with rings: all_reduce 2 (n - 1) / n of its bytes, all_gather,
// all_to_all and reduce_scatter (n - 1) / n, a permute all.
[[nodiscard]] double sent_bytes(const std::vector<ProgramCollective>& collectives);

}  // namespace tpplan::programs
