// What the dims of a program's parameters are, told from the operations on them.
#pragma once

#include <cstdint>
#include <vector>

#include "programs/program.h"

namespace tpplan::programs {

enum class DimRole : uint8_t {
  Other,
  Heads,    // of a parameter that also has a HeadDim
  HeadDim,  // of queries and keys, along which attention contracts them, or of values
  Layers,   // a loop reads one index of it in each turn
  Parts,    // the program splits it, or what is computed along it, into parts
  Hidden,   // the dim that most parameters have: FSDP shards it, and tensor parallelism does not
};

struct ArgumentDim {
  DimRole role = DimRole::Other;
  std::vector<int64_t> splits;         // of Parts: where the parts after the first begin
  std::vector<OperationIndex> slices;  // of Parts: the operations that split
};

// Returns the dims of each argument of a recorded program; of arguments that are not parameters, all are Other.
[[nodiscard]] std::vector<std::vector<ArgumentDim>> find_dim_roles(const Program& recorded,
                                                                   const std::vector<bool>& is_param);

}  // namespace tpplan::programs
