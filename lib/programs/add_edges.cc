#include "programs/add_edges.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan::programs {
namespace {

bool has_shape(const Program& program, ValueIndex value, ValueIndex other) {
  return std::ranges::equal(shape_of(program, value), shape_of(program, other));
}

// Returns the operand `i` of what a block returns; kNoIndex if it returns less.
OperandIndex returned(const Program& program, BlockIndex block, uint32_t i) {
  const ProgramOperation& last = program.operations[program.blocks[block].last];
  return i < last.operand_count ? last.first_operand + i : kNoIndex;
}

// Lists the operands that flow into result `i`. Returns false if there are none, or not in each block.
bool list_sources(const Program& program, const ProgramOperation& operation, uint32_t i,
                  std::vector<OperandIndex>& sources) {
  sources.clear();
  if (operation.kind != OperationClass::Case) {
    if (operation.operand_count != operation.result_count) return false;
    sources.push_back(operation.first_operand + i);
  }
  if (operation.kind == OperationClass::While) {
    if (operation.block_count != 2) return false;
    sources.push_back(returned(program, operation.first_block + 1, i));
  }
  if (operation.kind == OperationClass::Case) {
    for (uint32_t block = 0; block < operation.block_count; ++block)
      sources.push_back(returned(program, operation.first_block + block, i));
  }
  return !sources.empty() && std::ranges::all_of(sources, [&](OperandIndex source) {
    return source != kNoIndex && has_shape(program, program.operands[source].value, operation.first_result + i);
  });
}

// Lets the arguments of a while's regions share the sharding of its result `i`.
bool share_arguments(Program& program, const ProgramOperation& operation, uint32_t i, ProgramOperation& edge) {
  for (uint32_t b = 0; b < 2; ++b) {
    const ProgramBlock& block = program.blocks[operation.first_block + b];
    if (block.argument_count != operation.result_count) return false;
    const ValueIndex argument = block.first_argument + i;
    if (!has_shape(program, argument, edge.first_result)) return false;
    program.values[argument].holder = edge.first_result;
    (b == 0 ? edge.first_target : edge.target) = argument;
  }
  return true;
}

void add_edges_of(Program& program, OperationIndex id, Diagnostics& diagnostics) {
  OperationIndex previous = id;
  std::vector<OperandIndex> sources;
  for (uint32_t i = 0; i < program.operations[id].result_count; ++i) {
    const ProgramOperation operation = program.operations[id];
    ProgramOperation edge{.kind = OperationClass::Edge,
                          .id = operation.id,
                          .name = "edge",
                          .location = operation.location,
                          .offset = operation.offset,
                          .first_result = operation.first_result + i,
                          .result_count = 1,
                          .owner = id};
    if (!list_sources(program, operation, i, sources) ||
        (operation.kind == OperationClass::While && !share_arguments(program, operation, i, edge))) {
      return program_fault(program, operation,
                           fmt::format("result {} of {} does not fit its operands and regions", i, operation.name),
                           diagnostics);
    }
    const auto edge_id = static_cast<OperationIndex>(program.operations.size());
    edge.first_source = static_cast<uint32_t>(program.sources.size());
    edge.source_count = static_cast<uint32_t>(sources.size());
    program.sources.insert(program.sources.end(), sources.begin(), sources.end());
    for (const OperandIndex source : sources) program.operands[source].edge = edge_id;
    program.values[edge.first_result].maker = edge_id;
    program.operations.push_back(edge);
    insert_after(program, edge_id, previous);
    previous = edge_id;
  }
}

}  // namespace

void add_edges(Program& program, Diagnostics& diagnostics) {
  for (const OperationIndex id : operations_in_order(program)) {
    const OperationClass kind = program.operations[id].kind;
    if (kind == OperationClass::While || kind == OperationClass::Case || kind == OperationClass::Barrier)
      add_edges_of(program, id, diagnostics);
  }
  // Leaves room for operations that are moved.
  int64_t order = 0;
  for (const OperationIndex id : operations_in_order(program)) program.operations[id].order = ++order << 32;
}

}  // namespace tpplan::programs
