// The collectives that Shardy inserts into a program whose values have shardings.
#pragma once

#include <cstdint>
#include <vector>

#include "programs/choose_layout.h"
#include "programs/relay_results.h"
#include "programs/reshard_to_collectives.h"

namespace tpplan::programs {

struct ProgramCollective {
  ReshardKind kind{};
  AxisParts axes;
  int64_t bytes = 0;                    // of one rank's tensor: the result of an all_gather, the input of other kinds
  OperationIndex operation = kNoIndex;  // that needs it; kNoIndex for a result of the program
  int64_t times = 1;                    // in a step: the turns of the loops around it
};

// What decides over the layouts of operations: Shardy's rules, or those of XLA's partitioner on top (xla_mode.h).
struct ReshardRules {
  FactorPins (*pin)(Program& program, const FactorRules& rules, OperationIndex operation) = nullptr;
  // Adds collectives inside an operation with this layout.
  void (*add)(Program& program, const FactorRules& rules, OperationIndex operation, const OperationLayout& layout,
              int64_t times, std::vector<ProgramCollective>& list) = nullptr;
  bool moves_axes = true;        // of choose_layout
  bool shares_reshards = false;  // a value is brought to one layout once in each block
};

// Returns the collectives of the program, in its order. `relaid` are those of relay_products.
[[nodiscard]] std::vector<ProgramCollective> insert_reshards(Program& program, const FactorRules& rules,
                                                             const std::vector<RelaidResult>& relaid,
                                                             const std::vector<int64_t>& turns,
                                                             const ReshardRules& choices = {});

// Returns the bytes of one rank's shard of a value with this sharding; dims round up.
[[nodiscard]] int64_t shard_bytes(const Program& program, ValueIndex value, const std::vector<AxisParts>& dims);

// Returns the sharding of a value, or of a tensor of an operation with this layout, as lists of axes.
[[nodiscard]] std::vector<AxisParts> axes_of_dims(const Program& program, std::span<const AxesOfDim> dims);

}  // namespace tpplan::programs
