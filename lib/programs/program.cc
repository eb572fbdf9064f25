#include "programs/program.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

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

void add_use(Program& program, OperandIndex operand, ValueIndex value) {
  ProgramOperand& o = program.operands[operand];
  OperandIndex& first = program.values[value].first_use;
  o.value = value;
  o.previous = kNoIndex;
  o.next = first;
  if (first != kNoIndex) program.operands[first].previous = operand;
  first = operand;
}

void remove_use(Program& program, OperandIndex operand) {
  const ProgramOperand& o = program.operands[operand];
  if (o.next != kNoIndex) program.operands[o.next].previous = o.previous;
  (o.previous != kNoIndex ? program.operands[o.previous].next : program.values[o.value].first_use) = o.next;
}

void replace_use(Program& program, OperandIndex operand, ValueIndex value) {
  remove_use(program, operand);
  add_use(program, operand, value);
}

uint32_t count_uses(const Program& program, ValueIndex value, uint32_t most) {
  uint32_t count = 0;
  for (OperandIndex use = program.values[value].first_use; use != kNoIndex && count < most;
       use = program.operands[use].next)
    ++count;
  return count;
}

namespace {

constexpr int64_t kOrderStride = int64_t{1} << 32;

// Links `operation` between two neighbours, of which at least one exists.
void link(Program& program, OperationIndex operation, OperationIndex previous, OperationIndex next) {
  ProgramOperation& o = program.operations[operation];
  ProgramBlock& block = program.blocks[o.block];
  o.previous = previous;
  o.next = next;
  (previous != kNoIndex ? program.operations[previous].next : block.first) = operation;
  (next != kNoIndex ? program.operations[next].previous : block.last) = operation;
  const int64_t before = previous != kNoIndex ? program.operations[previous].order : 0;
  const int64_t after = next != kNoIndex ? program.operations[next].order : before + 2 * kOrderStride;
  o.order =
      previous != kNoIndex ? before + (after - before) / 2 : (next != kNoIndex ? after - kOrderStride : kOrderStride);
}

}  // namespace

void insert_before(Program& program, OperationIndex operation, OperationIndex next) {
  program.operations[operation].block = program.operations[next].block;
  link(program, operation, program.operations[next].previous, next);
}

void insert_after(Program& program, OperationIndex operation, OperationIndex previous) {
  program.operations[operation].block = program.operations[previous].block;
  link(program, operation, previous, program.operations[previous].next);
}

void insert_first(Program& program, OperationIndex operation, BlockIndex block) {
  program.operations[operation].block = block;
  link(program, operation, kNoIndex, program.blocks[block].first);
}

void remove_from_block(Program& program, OperationIndex operation) {
  const ProgramOperation& o = program.operations[operation];
  ProgramBlock& block = program.blocks[o.block];
  (o.previous != kNoIndex ? program.operations[o.previous].next : block.first) = o.next;
  (o.next != kNoIndex ? program.operations[o.next].previous : block.last) = o.previous;
}

bool is_used(const Program& program, OperationIndex operation) {
  const ProgramOperation& o = program.operations[operation];
  for (uint32_t i = 0; i < o.result_count; ++i) {
    if (program.values[o.first_result + i].first_use != kNoIndex) return true;
  }
  return false;
}

void remove_operation(Program& program, OperationIndex operation) {
  ProgramOperation& o = program.operations[operation];
  o.is_dead = true;
  remove_from_block(program, operation);
  for (uint32_t i = 0; i < o.operand_count; ++i) remove_use(program, o.first_operand + i);
}

ValueIndex add_value_like(Program& program, ValueIndex other) {
  ProgramValue value = program.values[other];
  const auto id = static_cast<ValueIndex>(program.values.size());
  const uint32_t first = value.first_dim;
  value.first_dim = static_cast<uint32_t>(program.sizes.size());
  value.has_sharding = false;
  value.holder = id;
  value.first_use = kNoIndex;
  for (uint32_t i = 0; i < value.rank; ++i) {
    const int64_t size = program.sizes[first + i];
    program.sizes.push_back(size);
    program.dims.push_back({});
  }
  program.values.push_back(value);
  return id;
}

namespace {

void append_block(const Program& program, BlockIndex block, std::vector<OperationIndex>& list) {
  for (OperationIndex id = program.blocks[block].first; id != kNoIndex; id = program.operations[id].next) {
    const ProgramOperation& operation = program.operations[id];
    list.push_back(id);
    for (uint32_t i = 0; i < operation.block_count; ++i) append_block(program, operation.first_block + i, list);
  }
}

}  // namespace

std::vector<OperationIndex> operations_in_order(const Program& program) {
  std::vector<OperationIndex> list;
  list.reserve(program.operations.size());
  append_block(program, 0, list);
  return list;
}

void program_fault(const Program& program, const ProgramOperation& operation, std::string message,
                   Diagnostics& diagnostics) {
  report_message(diagnostics, Code::InvalidProgram, {program.file, operation.offset, 1}, std::move(message),
                 "record the program again");
}

bool is_equal_sharding(std::span<const AxesOfDim> a, std::span<const AxesOfDim> b) {
  return std::ranges::equal(a, b, {}, &AxesOfDim::axes, &AxesOfDim::axes);
}

}  // namespace tpplan::programs
