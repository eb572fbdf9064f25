// Shardings of tensors as shardings of factors.
#pragma once

#include <vector>

#include "programs/operation_rules.h"
#include "programs/program.h"

namespace tpplan::programs {

// How a tensor shards one of its factors.
struct FactorAxes {
  AxisListId axes = kNoAxes;
  AxisListId overflow = kNoAxes;  // axes whose sizes do not divide the rest of the factor
  bool is_closed = false;
  bool is_minor = true;  // the last factor of its dim: it may be padded
};

// Writes how each tensor of an operation shards its factors into `slots`, which are parallel to the rule's. Axes go to
// the factors of a dim major to minor; a factor that is not the last takes what divides it, and splits axes for that.
void project_factors(Program& program, const FactorRules& rules, OperationIndex operation,
                     std::vector<FactorAxes>& slots);

// The same for one tensor, whose sharding is `dims`.
void project_tensor(Program& program, const FactorRules& rules, const FactorRule& rule, uint32_t tensor,
                    std::span<const AxesOfDim> dims, std::vector<FactorAxes>& slots);

// Writes the sharding of one tensor, into `dims`, that its factors have: the inverse of project_factors. Axes of
// factors behind one that is not fully sharded are dropped, because they would need strided shards.
void join_factors(Program& program, const FactorRules& rules, const FactorRule& rule, uint32_t tensor,
                  const std::vector<FactorAxes>& slots, std::vector<AxesOfDim>& dims);

// The slots of one tensor.
struct SlotRange {
  uint32_t first = 0, end = 0;
};
[[nodiscard]] inline SlotRange slots_of(const FactorRules& rules, const FactorRule& rule, uint32_t tensor) {
  const uint32_t* const dims = rules.tensors.data() + rule.first_tensor + tensor;
  const uint32_t* const ends = rules.dim_slots.data() + rule.first_dim;
  return {ends[dims[0]], ends[dims[1]]};
}
[[nodiscard]] inline uint32_t factor_at(const FactorRules& rules, const FactorRule& rule, uint32_t slot) {
  return rules.slots[rule.first_slot + slot];
}
// Returns the slot of a factor in a tensor; kNoIndex if the tensor lacks it.
[[nodiscard]] inline uint32_t find_slot(const FactorRules& rules, const FactorRule& rule, SlotRange tensor,
                                        uint32_t factor) {
  for (uint32_t slot = tensor.first; slot < tensor.end; ++slot) {
    if (factor_at(rules, rule, slot) == factor) return slot;
  }
  return kNoIndex;
}

}  // namespace tpplan::programs
