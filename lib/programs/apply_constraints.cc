#include "programs/apply_constraints.h"

#include <algorithm>

namespace tpplan::programs {
namespace {

struct Constraints {
  Program& program;
  std::vector<uint32_t> uses;     // of each value by constraints
  std::vector<bool> is_disputed;  // values whose constraints differ
};

bool is_constraint(const Program& program, OperationIndex id) {
  return program.operations[id].kind == OperationClass::Constraint;
}

bool is_equal(const AxesOfDim& a, const AxesOfDim& b) { return a.axes == b.axes && a.is_closed == b.is_closed; }

bool has_equal_sharding(const Program& program, ValueIndex a, ValueIndex b) {
  return std::ranges::equal(dims_of(program, a), dims_of(program, b), is_equal);
}

void move_use(Constraints& c, OperandIndex use, ValueIndex value) {
  const ProgramOperand& operand = c.program.operands[use];
  if (is_constraint(c.program, operand.user)) {
    --c.uses[operand.value];
    ++c.uses[value];
  }
  replace_use(c.program, use, value);
}

// True if constraints of `input` differ from that with the result `wanted`.
bool is_disputed(Constraints& c, ValueIndex input, ValueIndex wanted) {
  if (c.is_disputed[input]) return true;
  for (OperandIndex use = c.program.values[input].first_use; use != kNoIndex; use = c.program.operands[use].next) {
    const OperationIndex user = c.program.operands[use].user;
    if (!is_constraint(c.program, user)) continue;
    if (!has_equal_sharding(c.program, c.program.operations[user].first_result, wanted)) c.is_disputed[input] = true;
    if (c.is_disputed[input]) break;
  }
  return c.is_disputed[input];
}

// Returns the last constraint of the chain that starts at `head`; kNoIndex if it has one link or its input other ones.
OperationIndex find_tail(const Constraints& c, OperationIndex head) {
  const Program& p = c.program;
  const ValueIndex input = operand_of(p, p.operations[head], 0);
  const OperationIndex maker = p.values[input].maker;
  if ((maker != kNoIndex && is_constraint(p, maker)) || has_sharding(p, input) || c.uses[input] > 1) return kNoIndex;
  OperationIndex tail = head;
  for (;;) {
    const ValueIndex result = p.operations[tail].first_result;
    if (count_uses(p, result, 2) != 1) break;
    const OperationIndex user = p.operands[p.values[result].first_use].user;
    if (!is_constraint(p, user)) break;
    tail = user;
  }
  return tail == head || c.uses[p.operations[tail].first_result] > 0 ? kNoIndex : tail;
}

// Lets users of the input behind the chain's tail use the tail's result.
void use_tail(Constraints& c, OperationIndex head, OperationIndex tail) {
  Program& p = c.program;
  const ProgramOperation& last = p.operations[tail];
  const ValueIndex input = operand_of(p, p.operations[head], 0);
  for (OperandIndex use = p.values[input].first_use; use != kNoIndex;) {
    const OperandIndex next = p.operands[use].next;
    const OperationIndex id = p.operands[use].user;
    const ProgramOperation& user = p.operations[id];
    const bool is_program_result = user.kind == OperationClass::Return && user.block == 0;
    if (id != head && !is_program_result && user.block == last.block && last.order < user.order)
      move_use(c, use, last.first_result);
    use = next;
  }
}

void apply_constraint(Constraints& c, OperationIndex id) {
  Program& p = c.program;
  const ValueIndex input = operand_of(p, p.operations[id], 0), result = p.operations[id].first_result;
  if (has_sharding(p, input)) return;
  if (!std::ranges::all_of(dims_of(p, result), &AxesOfDim::is_closed) || is_disputed(c, input, result)) return;
  const OperationIndex maker = p.values[p.values[input].holder].maker;
  if (maker == kNoIndex || p.operations[maker].kind != OperationClass::Edge) {
    std::ranges::copy(dims_of(p, result), dims_of(p, input).begin());
    p.values[p.values[input].holder].has_sharding = true;
    return;
  }
  remove_from_block(p, id);
  if (p.values[input].maker == kNoIndex)
    insert_first(p, id, p.values[input].block);
  else
    insert_after(p, id, p.values[input].maker);
  for (OperandIndex use = p.values[input].first_use; use != kNoIndex;) {
    const OperandIndex next = p.operands[use].next;
    if (p.operands[use].user != id) move_use(c, use, result);
    use = next;
  }
}

}  // namespace

void apply_constraints(Program& program) {
  Constraints c{.program = program};
  c.uses.resize(program.values.size());
  c.is_disputed.resize(program.values.size());
  for (const OperationIndex id : operations_in_order(program)) {
    if (is_constraint(program, id)) ++c.uses[operand_of(program, program.operations[id], 0)];
  }
  visit_nested_first(program, 0, [&](OperationIndex id) {
    if (!is_constraint(program, id)) return;
    if (const OperationIndex tail = find_tail(c, id); tail != kNoIndex) use_tail(c, id, tail);
    apply_constraint(c, id);
  });
}

}  // namespace tpplan::programs
