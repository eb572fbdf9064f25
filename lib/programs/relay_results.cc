#include "programs/relay_results.h"

#include <algorithm>

#include "programs/choose_layout.h"

namespace tpplan::programs {

namespace {

// Gives the result of a product its operands' layout. Returns false if that does not apply. `slots` are the projected
// ones.
bool relay_product(Program& program, const FactorRules& rules, OperationIndex id, std::vector<FactorAxes>& slots) {
  const FactorRule& rule = rules.rules[id];
  const ProgramOperation& operation = program.operations[id];
  const auto slot_of = [&](uint32_t tensor, uint32_t factor) {
    return find_slot(rules, rule, slots_of(rules, rule, tensor), factor);
  };
  const auto elements_of_tensor = [&](uint32_t tensor) {
    return program.values[tensor_of(program, operation, tensor)].elements;
  };
  uint32_t conflict = kNoIndex;
  AxisListId wanted = kNoAxes;
  AxisParts reduced, seen;
  for (uint32_t factor = 0; factor < rule.factor_count; ++factor) {
    const uint32_t lhs = slot_of(0, factor);
    const uint32_t rhs = slot_of(1, factor);
    const uint32_t result = slot_of(2, factor);
    if (lhs == kNoIndex && rhs == kNoIndex) return false;
    const AxisListId axes = slots[lhs != kNoIndex ? lhs : rhs].axes;
    int64_t elements = 0;
    if (lhs != kNoIndex && rhs != kNoIndex) {
      if (slots[lhs].axes != slots[rhs].axes) return false;
      elements = std::max(elements_of_tensor(0), elements_of_tensor(1));
      if (rules.factors[rule.first_factor + factor].kind == FactorKind::Reduce) {
        const AxisParts& parts = parts_of(program.lists, axes);
        reduced.insert(reduced.end(), parts.begin(), parts.end());
        continue;
      }
    } else {
      elements = elements_of_tensor(lhs != kNoIndex ? 0 : 1);
      for (const AxisPart& axis : parts_of(program.lists, axes)) {
        if (overlaps(seen, axis)) return false;
        seen.push_back(axis);
      }
    }
    if (result == kNoIndex || slots[result].axes == axes) continue;
    if (axes == kNoAxes || conflict != kNoIndex || elements_of_tensor(2) > elements) return false;
    conflict = result;
    wanted = axes;
  }
  if (conflict == kNoIndex) return false;
  const AxisParts& old = parts_of(program.lists, slots[conflict].axes);
  if (old.empty() || old != reduced) return false;
  slots[conflict].axes = wanted;
  return true;
}

}  // namespace

std::vector<RelaidResult> relay_products(Program& program, const FactorRules& rules) {
  std::vector<RelaidResult> relaid;
  std::vector<FactorAxes> slots;
  for (const OperationIndex id : operations_in_order(program)) {
    const ProgramOperation& operation = program.operations[id];
    if (!rules.rules[id].exists || operation.name != "stablehlo.dot_general") continue;
    project_factors(program, rules, id, slots);
    if (!relay_product(program, rules, id, slots)) continue;
    RelaidResult& product = relaid.emplace_back(RelaidResult{.operation = id});
    join_factors(program, rules, rules.rules[id], 2, slots, product.dims);
  }
  return relaid;
}

std::vector<RelaidResult> relay_concatenations(Program& program, const FactorRules& rules) {
  std::vector<RelaidResult> relaid;
  for (const OperationIndex id : operations_in_order(program)) {
    const ProgramOperation& operation = program.operations[id];
    if (!rules.rules[id].exists || operation.name != "stablehlo.concatenate") continue;
    bool differs = false;
    for (uint32_t i = 0; i < operation.operand_count; ++i)
      differs |= !is_equal_sharding(dims_of(program, operand_of(program, operation, i)),
                                    dims_of(program, operation.first_result));
    if (!differs) continue;
    const OperationLayout layout = choose_layout(program, rules, id);
    if (!layout.is_changed) continue;
    RelaidResult& result = relaid.emplace_back(RelaidResult{.operation = id});
    join_factors(program, rules, rules.rules[id], operation.operand_count, layout.slots, result.dims);
  }
  return relaid;
}

}  // namespace tpplan::programs
