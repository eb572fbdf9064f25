// How each operation of StableHLO divides its tensors into factors: `([b i k], [b k j]) -> [b i j]` of a product.
// Propagation and resharding know operations by these rules only (openxla.org/shardy/sharding_representation).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "programs/program.h"

namespace tpplan::programs {

// How a factor may be sharded without communication.
enum class FactorKind : uint8_t {
  Pass,       // in all tensors that have it
  Reduce,     // results are then partial sums
  Replicate,  // never
  Permute,    // results need elements of other ranks
};

struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::Pass;
  bool is_blocked = false;  // shardings do not propagate along it
};

// The rule of one operation, in the arrays of FactorRules.
struct FactorRule {
  bool exists = false;
  bool has_compound_dims = false;  // a dim with several factors
  uint32_t first_factor = 0, factor_count = 0;
  uint32_t first_dim = 0;                   // into FactorRules::dim_slots: the dims of all operands, then of results
  uint32_t first_slot = 0, slot_count = 0;  // into FactorRules::slots
  uint32_t first_tensor = 0, tensor_count = 0;  // into FactorRules::tensors
};

// The rules of all operations of a program.
struct FactorRules {
  std::vector<FactorRule> rules;  // by operation
  std::vector<Factor> factors;
  std::vector<uint32_t> slots;      // factor of each slot; a dim has one slot for each of its factors, major first
  std::vector<uint32_t> dim_slots;  // first slot of each dim, then the end; relative to FactorRule::first_slot
  std::vector<uint32_t> tensors;    // first dim of each tensor, then the end; relative to FactorRule::first_dim
};

struct RuleBuilder;
using BuildFactors = void (*)(RuleBuilder& builder);

struct OperationRow {
  std::string_view name;
  BuildFactors build = nullptr;
  OperationClass kind = OperationClass::Plain;
  bool is_elementwise = false;       // for the order of propagation
  bool preserves_constants = false;  // of constant operands its result is a constant
};

// Returns the row of an operation; nullptr if the table lacks it.
[[nodiscard]] const OperationRow* find_operation_row(std::string_view name);

// Builds the rules of all operations, also of edges. Reports operations whose attributes contradict their tensors.
[[nodiscard]] FactorRules build_factor_rules(const Program& program, Diagnostics& diagnostics);

// The tensors of an operation, as rules see them: operands, then results.
[[nodiscard]] inline ValueIndex tensor_of(const Program& program, const ProgramOperation& operation, uint32_t i) {
  if (operation.kind == OperationClass::Edge) {
    return i < operation.source_count ? program.operands[program.sources[operation.first_source + i]].value
                                      : operation.first_result;
  }
  return i < operation.operand_count ? program.operands[operation.first_operand + i].value
                                     : operation.first_result + (i - operation.operand_count);
}
[[nodiscard]] inline uint32_t input_count(const ProgramOperation& operation) {
  return operation.kind == OperationClass::Edge ? operation.source_count : operation.operand_count;
}

// ---- for rules ----

// The rule of one operation while it is built.
struct RuleBuilder {
  const Program& program;
  const ProgramOperation& operation;
  OperationIndex id = 0;
  Diagnostics& diagnostics;
  std::vector<Factor> factors;
  // For each dim of each tensor the factors so far, in the order in which they were added.
  std::vector<uint32_t> first_dims;                  // of each tensor
  std::vector<std::pair<uint32_t, uint32_t>> pairs;  // dim, factor
  bool exists = true;
  bool is_bad = false;
};

inline constexpr int64_t kUnmapped = -1;

[[nodiscard]] inline bool is_in(std::span<const int64_t> list, int64_t item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

[[nodiscard]] uint32_t inputs_of(const RuleBuilder& builder);
[[nodiscard]] uint32_t tensors_of(const RuleBuilder& builder);
[[nodiscard]] std::span<const int64_t> tensor_shape(const RuleBuilder& builder, uint32_t tensor);

// Adds a factor without dims.
void add_factor(RuleBuilder& builder, int64_t size, FactorKind kind = FactorKind::Pass, bool is_blocked = false);
// Adds the last factor to a dim of a tensor. @pre the dim exists or is kUnmapped.
void map_dim(RuleBuilder& builder, uint32_t tensor, int64_t dim);
// Adds the last factor to dim `dim` of all tensors that are not scalars.
void map_all(RuleBuilder& builder, int64_t dim);

// Reports that the operation contradicts its tensors.
void reject(RuleBuilder& builder, std::string message);
// Reads an attribute with one integer or integers, and rejects the operation if it has no such attribute.
[[nodiscard]] bool read_attribute(RuleBuilder& builder, std::string_view name, std::vector<int64_t>& numbers);
[[nodiscard]] bool read_attribute(RuleBuilder& builder, std::string_view name, int64_t& number);
// Reads a list of dims in an attribute like #stablehlo.dot<...>; without the field it is empty. Rejects the operation
// unless each is a dim of a tensor of this rank, and none is there twice.
[[nodiscard]] bool read_dims(RuleBuilder& builder, std::string_view attribute, std::string_view field, int64_t rank,
                             std::vector<int64_t>& dims);
// True if the operation has this many inputs and results; rejects it otherwise.
[[nodiscard]] bool expect_counts(RuleBuilder& builder, uint32_t inputs, uint32_t results);
// True if a tensor has this rank; rejects the operation otherwise.
[[nodiscard]] bool expect_rank(RuleBuilder& builder, uint32_t tensor, size_t rank);

void build_pointwise(RuleBuilder& builder);
void build_broadcast(RuleBuilder& builder);
void build_reshape(RuleBuilder& builder);
void build_transpose(RuleBuilder& builder);
void build_reverse(RuleBuilder& builder);
void build_dot(RuleBuilder& builder);
void build_convolution(RuleBuilder& builder);
void build_reduce(RuleBuilder& builder);
void build_slice(RuleBuilder& builder);
void build_concatenate(RuleBuilder& builder);
void build_dynamic_slice(RuleBuilder& builder);
void build_dynamic_update_slice(RuleBuilder& builder);
void build_gather(RuleBuilder& builder);
void build_scatter(RuleBuilder& builder);
void build_window(RuleBuilder& builder);
void build_select_and_scatter(RuleBuilder& builder);
void build_sort(RuleBuilder& builder);
void build_top_k(RuleBuilder& builder);
void build_random(RuleBuilder& builder);

}  // namespace tpplan::programs
