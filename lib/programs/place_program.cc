#include "programs/place_program.h"

namespace tpplan::programs {
namespace {

// Removes an operation with one operand and one result: users of the result use the operand.
void bypass(Program& p, OperationIndex id) {
  const ValueIndex operand = operand_of(p, p.operations[id], 0), result = p.operations[id].first_result;
  while (p.values[result].first_use != kNoIndex) replace_use(p, p.values[result].first_use, operand);
  remove_operation(p, id);
}

// Restores the order of all uses, on which propagation depends: as if the removed operations had never been there.
void relink_uses(Program& p) {
  for (ProgramValue& value : p.values) value.first_use = kNoIndex;
  for (const OperationIndex id : operations_in_order(p)) {
    const ProgramOperation& operation = p.operations[id];
    for (uint32_t i = operation.first_operand; i < operation.first_operand + operation.operand_count; ++i)
      add_use(p, i, p.operands[i].value);
  }
}

WrittenDims constraint_of(const Program& p, const ProgramOperation& operation, const ProgramPlacement& placement) {
  if (operation.name == "tpplan.boundary") {
    return placement.constraint_of({.module = attribute_of(p, operation, "module"),
                                    .value = attribute_of(p, operation, "value"),
                                    .mapped = attribute_of(p, operation, "mapped"),
                                    .shape = shape_of(p, operation.first_result)});
  }
  std::vector<WrittenDim> dims;
  if (!read_sharding_text(attribute_of(p, operation, "sharding"), dims).empty()) return std::nullopt;
  return dims;
}

}  // namespace

Program place_program(const Program& recorded, const ProgramPlacement& placement, size_t& ignored) {
  Program p = recorded;
  p.axis_names = placement.axis_names;
  p.axis_sizes = placement.axis_sizes;
  for (OperationIndex id = 0; id < recorded.operations.size(); ++id) {
    if (p.operations[id].kind != OperationClass::Constraint) continue;
    const WrittenDims dims = constraint_of(p, p.operations[id], placement);
    if (dims && resolve_sharding(p, p.operations[id].first_result, *dims).empty()) continue;
    ignored += p.operations[id].name == "tpplan.boundary" ? 0 : 1;
    bypass(p, id);
  }
  relink_uses(p);
  for (ValueIndex i = 0; i < placement.arguments.size(); ++i) {
    if (placement.arguments[i]) (void)resolve_sharding(p, i, *placement.arguments[i]);
  }
  for (uint32_t i = 0; i < placement.results.size(); ++i) {
    const ValueIndex result = add_value_like(p, operand_of(p, p.operations[p.blocks[0].last], i));
    p.results.push_back(result);
    if (placement.results[i]) (void)resolve_sharding(p, result, *placement.results[i]);
  }
  return p;
}

}  // namespace tpplan::programs
