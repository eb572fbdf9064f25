#include "programs/propagate_program.h"

#include <algorithm>

#include "programs/add_edges.h"
#include "programs/apply_constraints.h"
#include "programs/close_boundary.h"
#include "programs/count_turns.h"
#include "programs/propagate_shardings.h"
#include "programs/split_constants.h"
#include "programs/xla_mode.h"

namespace tpplan::programs {
namespace {

// Collects the shardings of each recorded value. A copy of a constant counts for the constant, which may have no use
// itself.
void collect_shardings(const std::vector<RelaidResult>& relaid, Propagation& result) {
  const Program& p = result.program;
  result.shardings.resize(p.recorded_values);
  const auto add = [&](ValueIndex value, std::span<const AxesOfDim> dims) {
    std::vector<AxisParts> axes = axes_of_dims(p, dims);
    auto& list = result.shardings[value];
    if (std::ranges::find(list, axes) == list.end()) list.push_back(std::move(axes));
  };
  std::vector<bool> is_relaid(p.values.size());
  for (const RelaidResult& changed : relaid) {
    const ValueIndex value = p.operations[changed.operation].first_result;
    is_relaid[value] = true;
    add(value, changed.dims);
  }
  for (ValueIndex value = 0; value < p.values.size(); ++value) {
    const ProgramValue& v = p.values[value];
    const bool is_dead = v.maker != kNoIndex && p.operations[v.maker].is_dead;
    const ValueIndex recorded = v.copy_of != kNoIndex ? v.copy_of : value;
    if (!is_dead && recorded < p.recorded_values && !is_relaid[value]) add(recorded, dims_of(p, value));
  }
  // Values that nobody uses are replicated.
  for (ValueIndex value = 0; value < p.recorded_values; ++value) {
    if (result.shardings[value].empty()) result.shardings[value].emplace_back(p.values[value].rank);
  }
}

}  // namespace

Propagation propagate_program(Program program, Diagnostics& diagnostics) {
  Propagation result{.program = std::move(program)};
  Program& p = result.program;
  const std::vector<int64_t> turns = count_turns(p, diagnostics);
  split_constants(p, diagnostics);
  if (has_errors(diagnostics)) return result;
  add_edges(p, diagnostics);
  if (has_errors(diagnostics)) return result;
  const FactorRules rules = build_factor_rules(p, diagnostics);
  if (has_errors(diagnostics)) return result;
  apply_constraints(p);
  propagate_shardings(p, rules);
  close_boundary(p);
  const std::vector<RelaidResult> relaid = relay_products(p, rules);
  result.shardy = insert_reshards(p, rules, relaid, turns);
  result.xla = insert_reshards(p, rules, relaid, turns, kXlaRules);
  std::vector<RelaidResult> changed = relay_concatenations(p, rules);
  changed.insert(changed.end(), relaid.begin(), relaid.end());
  collect_shardings(changed, result);
  for (const OperationIndex id : operations_in_order(p)) {
    const ProgramOperation& operation = p.operations[id];
    if (operation.row == nullptr && operation.kind == OperationClass::Plain) result.unruled.push_back(id);
  }
  return result;
}

}  // namespace tpplan::programs
