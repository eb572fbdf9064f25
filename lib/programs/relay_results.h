// Results that an operation computes in another layout than propagation gave them. Shardy moves their reshard behind
// the operation.
#pragma once

#include <vector>

#include "programs/operation_rules.h"
#include "programs/program.h"
#include "programs/project_factors.h"

namespace tpplan::programs {

// A result whose operation computes in another layout than its users see: they use a reshard of it.
struct RelaidResult {
  OperationIndex operation = kNoIndex;
  std::vector<AxesOfDim> dims;  // of the operation itself
};

// Returns the products whose result wants the axes of the contraction in another dim. They are computed in the
// operands' layout, and the result is resharded after them. @pre propagation is finished
[[nodiscard]] std::vector<RelaidResult> relay_products(Program& program, const FactorRules& rules);

// Returns the concatenations whose result is resharded. Shardy's pipeline reshards them and products before it ends,
// other operations later: these results have their own layout then.
[[nodiscard]] std::vector<RelaidResult> relay_concatenations(Program& program, const FactorRules& rules);

}  // namespace tpplan::programs
