#include "programs/split_constants.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <unordered_map>

#include "programs/operation_rules.h"

namespace tpplan::programs {
namespace {

constexpr size_t kMostCopies = size_t{1} << 20;

struct Splitter {
  Program& program;
  std::vector<bool> is_constant, is_expansion;  // by operation of the file
  size_t copies = 0;
};

// True if the results of an operation are constants, given what is known of its operands.
bool is_constant_operation(const Splitter& s, const ProgramOperation& operation) {
  if (operation.kind == OperationClass::Constant) return true;
  if (operation.row == nullptr || !operation.row->preserves_constants) return false;
  for (uint32_t i = 0; i < operation.operand_count; ++i) {
    const OperationIndex maker = s.program.values[operand_of(s.program, operation, i)].maker;
    if (maker == kNoIndex || !s.is_constant[maker]) return false;
  }
  return true;
}

bool is_scalar_expansion(const Program& program, const ProgramOperation& operation) {
  return operation.name == "stablehlo.broadcast_in_dim" && operation.operand_count == 1 &&
         program.values[operand_of(program, operation, 0)].rank == 0;
}

// The results of copies by what they copy, during one call of copy_constant.
using Copies = std::unordered_map<ValueIndex, ValueIndex>;

// Copies one operation, whose operands were copied before, in front of it.
void copy_operation(Splitter& s, OperationIndex original, Copies& copies) {
  Program& p = s.program;
  const auto id = static_cast<OperationIndex>(p.operations.size());
  ProgramOperation copy = p.operations[original];
  const uint32_t first_operand = copy.first_operand;
  const ValueIndex first_result = copy.first_result;
  copy.first_operand = static_cast<uint32_t>(p.operands.size());
  copy.first_result = static_cast<ValueIndex>(p.values.size());
  p.operations.push_back(copy);
  insert_before(p, id, original);
  for (uint32_t i = 0; i < copy.operand_count; ++i) {
    const ValueIndex operand = p.operands[first_operand + i].value;
    const auto found = copies.find(operand);
    p.operands.push_back({.user = id});
    add_use(p, copy.first_operand + i, found == copies.end() ? operand : found->second);
  }
  for (uint32_t i = 0; i < copy.result_count; ++i) {
    const ValueIndex value = add_value_like(p, first_result + i);
    p.values[value].maker = id;
    p.values[value].copy_of = first_result + i;
    // A constraint keeps its sharding.
    p.values[value].has_sharding = p.values[first_result + i].has_sharding;
    std::ranges::copy(dims_of(p, first_result + i), dims_of(p, value).begin());
    copies[first_result + i] = value;
  }
  ++s.copies;
}

// Copies all that computes `value`. Returns the copy.
ValueIndex copy_constant(Splitter& s, ValueIndex value) {
  Copies copies;
  std::vector<std::pair<ValueIndex, uint32_t>> open{{value, 0}};  // a value, and its next operand
  while (!open.empty() && s.copies < kMostCopies) {
    auto& [current, next] = open.back();
    const OperationIndex maker = s.program.values[current].maker;
    if (next < s.program.operations[maker].operand_count) {
      const ValueIndex operand = operand_of(s.program, s.program.operations[maker], next++);
      const ProgramValue& v = s.program.values[operand];
      if (v.rank > 0 && v.maker != kNoIndex && !copies.contains(operand)) open.emplace_back(operand, 0);
    } else {
      if (!copies.contains(current)) copy_operation(s, maker, copies);
      open.pop_back();
    }
  }
  const auto found = copies.find(value);
  return found == copies.end() ? value : found->second;
}

// Removes the constants that copies have replaced, the last first.
void remove_originals(Splitter& s) {
  Program& p = s.program;
  for (size_t id = s.is_constant.size(); id-- > 0;) {
    const bool is_replaced = s.is_constant[id] || s.is_expansion[id];
    if (is_replaced && !is_used(p, static_cast<OperationIndex>(id)))
      remove_operation(p, static_cast<OperationIndex>(id));
  }
}

}  // namespace

void split_constants(Program& program, Diagnostics& diagnostics) {
  Splitter s{.program = program};
  s.is_constant.resize(program.operations.size());
  s.is_expansion.resize(program.operations.size());
  for (const OperationIndex id : operations_in_order(program)) {
    if (is_constant_operation(s, program.operations[id])) {
      s.is_constant[id] = true;
      continue;
    }
    if (is_scalar_expansion(program, program.operations[id])) {
      s.is_expansion[id] = true;
      continue;
    }
    for (uint32_t i = 0; i < program.operations[id].operand_count; ++i) {
      const OperandIndex operand = program.operations[id].first_operand + i;
      const ValueIndex value = program.operands[operand].value;
      const OperationIndex maker = program.values[value].maker;
      if (program.values[value].rank == 0 || maker == kNoIndex || (!s.is_constant[maker] && !s.is_expansion[maker]))
        continue;
      replace_use(program, operand, copy_constant(s, value));
    }
    if (s.copies >= kMostCopies) {
      Diagnostic& d = report_message(diagnostics, Code::ResourceLimit, {program.file, program.operations[id].offset, 1},
                                     fmt::format("constants of this program have more than {} copies", kMostCopies),
                                     "compute large constants once, or pass them as arguments");
      d.label = "copied here";
      return;
    }
  }
  remove_originals(s);
}

}  // namespace tpplan::programs
