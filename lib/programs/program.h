// A StableHLO program whose values have shardings: operations in regions, uses of values, data flow edges. Phases of
// propagation edit it in place: they add copies of constants and edges, and replace uses.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "programs/axis_lists.h"

namespace tpplan::programs {

using ValueIndex = uint32_t;
using OperationIndex = uint32_t;
using OperandIndex = uint32_t;
using BlockIndex = uint32_t;
inline constexpr uint32_t kNoIndex = UINT32_MAX;

// What the phases need to know of an operation beside its rule.
enum class OperationClass : uint8_t {
  Plain,
  Constant,    // constant, iota
  Constraint,  // sdy.sharding_constraint
  While,
  Case,
  Barrier,  // optimization_barrier: each result is an edge from its operand
  Edge,     // made by add_edges: the shared sharding of a value that several values flow into
  Return,   // of a region or of the program: its operands are what the region returns
};

struct OperationRow;  // programs/operation_rules.h

struct ProgramAttribute {
  std::string_view name, text;
};

struct ProgramOperation {
  const OperationRow* row = nullptr;  // nullptr: an operation without a rule
  OperationClass kind = OperationClass::Plain;
  bool is_dead = false;  // removed: its results are not used
  int64_t id = -1;       // as recorded; -1 for edges and returns
  std::string_view name, location;
  uint64_t offset = 0;  // of the operation in the file
  BlockIndex block = 0;
  uint32_t first_operand = 0, operand_count = 0;
  ValueIndex first_result = 0;
  uint32_t result_count = 0;
  uint32_t first_attribute = 0, attribute_count = 0;
  uint32_t first_block = 0, block_count = 0;            // its regions
  OperationIndex previous = kNoIndex, next = kNoIndex;  // in the block
  int64_t order = 0;                                    // increases along the block
  uint32_t first_source = 0, source_count = 0;          // of an edge: into Program::sources
  OperationIndex owner = kNoIndex;                      // of an edge: the loop, branch or barrier
  ValueIndex first_target = kNoIndex,
             target = kNoIndex;  // of a while's edge: the arguments of its condition and its body
};

struct ProgramValue {
  int64_t id = -1;           // as recorded
  OperationIndex maker = 0;  // the operation whose result it is; kNoIndex for arguments of the program and of regions
  BlockIndex block = 0;
  uint32_t first_dim = 0;  // into Program::sizes and Program::dims
  uint32_t rank = 0;
  int64_t elements = 1;
  uint16_t bits = 0;                  // of an element
  bool has_sharding = false;          // something decided about it; kept at `holder`
  ValueIndex holder = 0;              // the value that has its sharding: of a while's arguments the result
  OperandIndex first_use = kNoIndex;  // the latest use
  ValueIndex copy_of = kNoIndex;      // of a copied constant the recorded value
};

// A use of a value. Uses of one value are a list, the latest first.
struct ProgramOperand {
  ValueIndex value = 0;
  OperationIndex user = 0;
  OperandIndex next = kNoIndex, previous = kNoIndex;
  OperationIndex edge = kNoIndex;  // the edge that the value flows into here
};

struct ProgramBlock {
  OperationIndex parent = kNoIndex;  // kNoIndex: the program
  ValueIndex first_argument = 0;
  uint32_t argument_count = 0;
  OperationIndex first = kNoIndex, last = kNoIndex;  // its operations; the last is the return
};

struct AxesOfDim {
  AxisListId axes = kNoAxes;
  bool is_closed = false;  // propagation must not add axes
};

struct Program {
  FileId file = kNoFile;
  std::deque<std::string> strings;  // decoded texts of the file
  std::vector<std::string> axis_names;
  std::vector<int64_t> axis_sizes;
  AxisLists lists;
  std::vector<ProgramOperation> operations;
  std::vector<ProgramValue> values;
  std::vector<ProgramOperand> operands;
  std::vector<ProgramBlock> blocks;  // blocks[0] is the program; its arguments are the first values
  std::vector<ProgramAttribute> attributes;
  std::vector<int64_t> sizes;   // shapes of all values
  std::vector<AxesOfDim> dims;  // shardings of all values, parallel to `sizes`
  std::vector<OperandIndex> sources;
  std::vector<ValueIndex> results;  // for each value that the program returns, a value that has the result's sharding
  size_t recorded_operations = 0, recorded_values = 0;  // those of the file come first
};

// An axis of a sharding as written, "model" or "model:1:2".
[[nodiscard]] std::string axis_text(const Program& program, const AxisPart& part);

[[nodiscard]] inline std::span<const int64_t> shape_of(const Program& program, ValueIndex value) {
  const ProgramValue& v = program.values[value];
  return {program.sizes.data() + v.first_dim, v.rank};
}

// Returns the dims of the sharding of a value.
[[nodiscard]] inline std::span<AxesOfDim> dims_of(Program& program, ValueIndex value) {
  const ProgramValue& holder = program.values[program.values[value].holder];
  return {program.dims.data() + holder.first_dim, holder.rank};
}
[[nodiscard]] inline std::span<const AxesOfDim> dims_of(const Program& program, ValueIndex value) {
  const ProgramValue& holder = program.values[program.values[value].holder];
  return {program.dims.data() + holder.first_dim, holder.rank};
}

// True if both have the same axes in each dim.
[[nodiscard]] bool is_equal_sharding(std::span<const AxesOfDim> a, std::span<const AxesOfDim> b);
[[nodiscard]] inline bool has_sharding(const Program& program, ValueIndex value) {
  return program.values[program.values[value].holder].has_sharding;
}

[[nodiscard]] inline ValueIndex operand_of(const Program& program, const ProgramOperation& operation, uint32_t i) {
  return program.operands[operation.first_operand + i].value;
}

// Returns the text of an attribute; empty if the operation lacks it.
[[nodiscard]] std::string_view attribute_of(const Program& program, const ProgramOperation& operation,
                                            std::string_view name);

// Makes `value` the value of an operand that has none yet.
void add_use(Program& program, OperandIndex operand, ValueIndex value);
void remove_use(Program& program, OperandIndex operand);
void replace_use(Program& program, OperandIndex operand, ValueIndex value);

// Returns the number of uses, at most `most`.
[[nodiscard]] uint32_t count_uses(const Program& program, ValueIndex value, uint32_t most);

// Puts an operation into the block of another one, before or after it. `order` is that of the neighbours' middle.
void insert_before(Program& program, OperationIndex operation, OperationIndex next);
void insert_after(Program& program, OperationIndex operation, OperationIndex previous);
void insert_first(Program& program, OperationIndex operation, BlockIndex block);
void remove_from_block(Program& program, OperationIndex operation);

// True if a result of an operation has a use.
[[nodiscard]] bool is_used(const Program& program, OperationIndex operation);
// Removes an operation without regions, whose results have no uses.
void remove_operation(Program& program, OperationIndex operation);

// Adds a value with the shape and type of another one and no sharding.
[[nodiscard]] ValueIndex add_value_like(Program& program, ValueIndex other);

// Returns all operations of the program in preorder, without dead ones.
[[nodiscard]] std::vector<OperationIndex> operations_in_order(const Program& program);

// Calls `visit(operation)` for each operation of a block, and of the blocks of its operations first.
template <typename Visit>
void visit_nested_first(const Program& program, BlockIndex block, const Visit& visit) {
  for (OperationIndex id = program.blocks[block].first; id != kNoIndex;) {
    const OperationIndex next = program.operations[id].next;  // `visit` may move or remove it
    for (uint32_t i = 0; i < program.operations[id].block_count; ++i)
      visit_nested_first(program, program.operations[id].first_block + i, visit);
    visit(id);
    id = next;
  }
}

// Reports that a recorded program cannot be used, at an operation.
void program_fault(const Program& program, const ProgramOperation& operation, std::string message,
                   Diagnostics& diagnostics);

}  // namespace tpplan::programs
