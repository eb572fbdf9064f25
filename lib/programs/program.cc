#include "programs/program.h"

#include <spdlog/fmt/fmt.h>

namespace tpplan::programs {

std::string axis_text(const Program& program, const AxisPart& part) {
  const std::string& name = program.axis_names[part.axis];
  return part.size == program.axis_sizes[part.axis] ? name : fmt::format("{}:{}:{}", name, part.before, part.size);
}

std::string_view attribute_of(const Program& program, const ProgramOperation& operation, std::string_view name) {
  for (uint32_t i = 0; i < operation.attribute_count; ++i) {
    const ProgramAttribute& attribute = program.attributes[operation.first_attribute + i];
    if (attribute.name == name) return attribute.text;
  }
  return {};
}

void add_use(Program& program, OperandId operand, ValueId value) {
  ProgramOperand& o = program.operands[operand];
  OperandId& first = program.values[value].first_use;
  o.value = value;
  o.previous = kNone;
  o.next = first;
  if (first != kNone) program.operands[first].previous = operand;
  first = operand;
}

void remove_use(Program& program, OperandId operand) {
  const ProgramOperand& o = program.operands[operand];
  if (o.next != kNone) program.operands[o.next].previous = o.previous;
  (o.previous != kNone ? program.operands[o.previous].next : program.values[o.value].first_use) = o.next;
}

void replace_use(Program& program, OperandId operand, ValueId value) {
  remove_use(program, operand);
  add_use(program, operand, value);
}

uint32_t count_uses(const Program& program, ValueId value, uint32_t most) {
  uint32_t count = 0;
  for (OperandId use = program.values[value].first_use; use != kNone && count < most;
       use = program.operands[use].next)
    ++count;
  return count;
}

namespace {

constexpr int64_t kOrderStride = int64_t{1} << 32;

// Links `operation` between two neighbours, of which at least one exists.
void link(Program& program, OperationId operation, OperationId previous, OperationId next) {
  ProgramOperation& o = program.operations[operation];
  ProgramBlock& block = program.blocks[o.block];
  o.previous = previous;
  o.next = next;
  (previous != kNone ? program.operations[previous].next : block.first) = operation;
  (next != kNone ? program.operations[next].previous : block.last) = operation;
  const int64_t before = previous != kNone ? program.operations[previous].order : 0;
  const int64_t after = next != kNone ? program.operations[next].order : before + 2 * kOrderStride;
  o.order = previous != kNone ? before + (after - before) / 2 : (next != kNone ? after - kOrderStride : kOrderStride);
}

}  // namespace

void insert_before(Program& program, OperationId operation, OperationId next) {
  program.operations[operation].block = program.operations[next].block;
  link(program, operation, program.operations[next].previous, next);
}

void insert_after(Program& program, OperationId operation, OperationId previous) {
  program.operations[operation].block = program.operations[previous].block;
  link(program, operation, previous, program.operations[previous].next);
}

void insert_first(Program& program, OperationId operation, BlockId block) {
  program.operations[operation].block = block;
  link(program, operation, kNone, program.blocks[block].first);
}

void remove_from_block(Program& program, OperationId operation) {
  const ProgramOperation& o = program.operations[operation];
  ProgramBlock& block = program.blocks[o.block];
  (o.previous != kNone ? program.operations[o.previous].next : block.first) = o.next;
  (o.next != kNone ? program.operations[o.next].previous : block.last) = o.previous;
}

ValueId add_value_like(Program& program, ValueId other) {
  ProgramValue value = program.values[other];
  const auto id = static_cast<ValueId>(program.values.size());
  const uint32_t first = value.first_dim;
  value.first_dim = static_cast<uint32_t>(program.sizes.size());
  value.has_sharding = false;
  value.holder = id;
  value.first_use = kNone;
  for (uint32_t i = 0; i < value.rank; ++i) {
    const int64_t size = program.sizes[first + i];
    program.sizes.push_back(size);
    program.dims.push_back({});
  }
  program.values.push_back(value);
  return id;
}

namespace {

void append_block(const Program& program, BlockId block, std::vector<OperationId>& list) {
  for (OperationId id = program.blocks[block].first; id != kNone; id = program.operations[id].next) {
    const ProgramOperation& operation = program.operations[id];
    list.push_back(id);
    for (uint32_t i = 0; i < operation.block_count; ++i) append_block(program, operation.first_block + i, list);
  }
}

}  // namespace

std::vector<OperationId> operations_in_order(const Program& program) {
  std::vector<OperationId> list;
  list.reserve(program.operations.size());
  append_block(program, 0, list);
  return list;
}

void program_fault(const Program& program, const ProgramOperation& operation, std::string message,
                   Diagnostics& diagnostics) {
  report_message(diagnostics, Code::InvalidProgram, {program.file, operation.offset, 1}, std::move(message),
                 "record the program again");
}

}  // namespace tpplan::programs
