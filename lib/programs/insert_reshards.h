// The collectives that Shardy inserts into a program whose values have shardings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "programs/operation_rules.h"
#include "programs/program.h"
#include "programs/project_factors.h"
#include "programs/reshard_to_collectives.h"

namespace tpplan::programs {

struct ProgramCollective {
  ReshardKind kind{};
  AxisParts axes;
  int64_t bytes = 0;                    // of one rank's tensor: the result of an all_gather, the input of other kinds
  OperationIndex operation = kNoIndex;  // that needs it; kNoIndex for a result of the program
  int64_t times = 1;                    // in a step: the turns of the loops around it
};

// How an operation computes: the shardings of its tensors around it, and what it sums.
struct OperationLayout {
  bool is_changed = false;        // some tensor differs from its value's sharding
  std::vector<FactorAxes> slots;  // parallel to the rule's
  AxisParts reduced;              // axes over which results are partial
};

// Axes of factors that are decided before the rest of a layout; nullopt: open.
using FactorPins = std::vector<std::optional<AxisParts>>;

// Returns the layout in which Shardy lets an operation compute, or with the axes of `pins`, by factor; empty: none. If
// `moves_axes` is true, axes of factors that must be replicated move to batch factors. @pre the operation has a rule.
[[nodiscard]] OperationLayout choose_layout(Program& program, const FactorRules& rules, OperationIndex operation,
                                            const FactorPins& pins = {}, bool moves_axes = true);

// Returns the layout of a product whose result wants the axes of the contraction in another dim: the operands' layout;
// the result is resharded after it. Returns false if this does not apply. `slots` are the projected ones.
[[nodiscard]] bool relay_product(Program& program, const FactorRules& rules, OperationIndex operation,
                                 std::vector<FactorAxes>& slots);

// A result whose operation computes in another layout than its users see: they use a reshard of it.
struct RelaidResult {
  OperationIndex operation = kNoIndex;
  std::vector<AxesOfDim> dims;  // of the operation itself
};

// Returns the products that are computed in the operands' layout (relay_product). @pre propagation is finished.
[[nodiscard]] std::vector<RelaidResult> relay_products(Program& program, const FactorRules& rules);

// Returns the concatenations whose result is resharded. Shardy's pipeline reshards them and products before it ends,
// other operations later: these results have their own layout then.
[[nodiscard]] std::vector<RelaidResult> relay_concatenations(Program& program, const FactorRules& rules);

// Returns how often the operations of each block run in a step. A loop runs as often as the largest constant of its
// condition. Reports TP9001 if a number exceeds 2^53.
[[nodiscard]] std::vector<int64_t> count_turns(const Program& program, Diagnostics& diagnostics);

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
