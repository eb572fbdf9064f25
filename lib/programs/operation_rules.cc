#include "programs/operation_rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <unordered_map>

#include "programs/attribute_text.h"

namespace tpplan::programs {
namespace {

using enum OperationClass;

// clang-format off
const OperationRow kRows[] = {
    // elementwise: they propagate first, and of constants they make constants
    {"stablehlo.abs", build_pointwise, Plain, true, true},
    {"stablehlo.add", build_pointwise, Plain, true, true},
    {"stablehlo.and", build_pointwise, Plain, true, true},
    {"stablehlo.atan2", build_pointwise, Plain, true, true},
    {"stablehlo.cbrt", build_pointwise, Plain, true, true},
    {"stablehlo.ceil", build_pointwise, Plain, true, true},
    {"stablehlo.clamp", build_pointwise, Plain, true, true},
    {"stablehlo.compare", build_pointwise, Plain, true, true},
    {"stablehlo.complex", build_pointwise, Plain, true, true},
    {"stablehlo.convert", build_pointwise, Plain, true, true},
    {"stablehlo.cosine", build_pointwise, Plain, true, true},
    {"stablehlo.count_leading_zeros", build_pointwise, Plain, true, true},
    {"stablehlo.divide", build_pointwise, Plain, true, true},
    {"stablehlo.exponential", build_pointwise, Plain, true, true},
    {"stablehlo.exponential_minus_one", build_pointwise, Plain, true, true},
    {"stablehlo.floor", build_pointwise, Plain, true, true},
    {"stablehlo.imag", build_pointwise, Plain, true, true},
    {"stablehlo.is_finite", build_pointwise, Plain, true, true},
    {"stablehlo.log", build_pointwise, Plain, true, true},
    {"stablehlo.log_plus_one", build_pointwise, Plain, true, true},
    {"stablehlo.logistic", build_pointwise, Plain, true, true},
    {"stablehlo.maximum", build_pointwise, Plain, true, true},
    {"stablehlo.minimum", build_pointwise, Plain, true, true},
    {"stablehlo.multiply", build_pointwise, Plain, true, true},
    {"stablehlo.negate", build_pointwise, Plain, true, true},
    {"stablehlo.not", build_pointwise, Plain, true, true},
    {"stablehlo.or", build_pointwise, Plain, true, true},
    {"stablehlo.popcnt", build_pointwise, Plain, true, true},
    {"stablehlo.power", build_pointwise, Plain, true, true},
    {"stablehlo.real", build_pointwise, Plain, true, true},
    {"stablehlo.reduce_precision", build_pointwise, Plain, true, true},
    {"stablehlo.remainder", build_pointwise, Plain, true, true},
    {"stablehlo.round_nearest_afz", build_pointwise, Plain, true, true},
    {"stablehlo.round_nearest_even", build_pointwise, Plain, true, true},
    {"stablehlo.rsqrt", build_pointwise, Plain, true, true},
    {"stablehlo.select", build_pointwise, Plain, true, true},
    {"stablehlo.shift_left", build_pointwise, Plain, true, true},
    {"stablehlo.shift_right_arithmetic", build_pointwise, Plain, true, true},
    {"stablehlo.shift_right_logical", build_pointwise, Plain, true, true},
    {"stablehlo.sign", build_pointwise, Plain, true, true},
    {"stablehlo.sine", build_pointwise, Plain, true, true},
    {"stablehlo.sqrt", build_pointwise, Plain, true, true},
    {"stablehlo.subtract", build_pointwise, Plain, true, true},
    {"stablehlo.tan", build_pointwise, Plain, true, true},
    {"stablehlo.tanh", build_pointwise, Plain, true, true},
    {"stablehlo.xor", build_pointwise, Plain, true, true},
    {"sdy.sharding_constraint", build_pointwise, Constraint, true, true},
    {"tpplan.boundary", build_pointwise, Constraint, true, true},  // a constraint if the plan has one (place_program)
    // CHLO's operations come to Shardy as custom calls.
    {"chlo.erf", build_pointwise},
    {"chlo.erfc", build_pointwise},
    {"chlo.erf_inv", build_pointwise},
    {"chlo.square", build_pointwise, Plain, true, true},
    {"chlo.top_k", build_top_k},
    // other
    {"stablehlo.broadcast_in_dim", build_broadcast, Plain, false, true},
    {"stablehlo.case", nullptr, Case},
    {"stablehlo.concatenate", build_concatenate},
    {"stablehlo.constant", nullptr, Constant},
    {"stablehlo.convolution", build_convolution},
    {"stablehlo.dot_general", build_dot},
    {"stablehlo.dynamic_slice", build_dynamic_slice},
    {"stablehlo.dynamic_update_slice", build_dynamic_update_slice},
    {"stablehlo.gather", build_gather},
    {"stablehlo.iota", nullptr, Constant},
    {"stablehlo.optimization_barrier", nullptr, Barrier},
    {"stablehlo.pad", build_slice},
    {"stablehlo.reduce", build_reduce},
    {"stablehlo.reduce_window", build_window},
    {"stablehlo.reshape", build_reshape, Plain, false, true},
    {"stablehlo.reverse", build_reverse},
    {"stablehlo.rng_bit_generator", build_random},
    {"stablehlo.scatter", build_scatter},
    {"stablehlo.select_and_scatter", build_select_and_scatter},
    {"stablehlo.slice", build_slice, Plain, false, true},
    {"stablehlo.sort", build_sort},
    {"stablehlo.transpose", build_transpose},
    {"stablehlo.while", nullptr, While},
};
// clang-format on

// Adds the rule of an edge: the identity of its sources and its result.
void build_edge(RuleBuilder& b) { build_pointwise(b); }

// Moves a built rule into the arrays.
void add_rule(const RuleBuilder& b, FactorRules& rules) {
  FactorRule& rule = rules.rules[b.id];
  if (!b.exists) return;
  rule.exists = true;
  rule.first_factor = static_cast<uint32_t>(rules.factors.size());
  rule.first_dim = static_cast<uint32_t>(rules.dim_slots.size());
  rule.first_slot = static_cast<uint32_t>(rules.slots.size());
  rule.first_tensor = static_cast<uint32_t>(rules.tensors.size());
  rule.tensor_count = static_cast<uint32_t>(b.first_dims.size() - 1);
  rules.factors.insert(rules.factors.end(), b.factors.begin(), b.factors.end());
  rules.tensors.insert(rules.tensors.end(), b.first_dims.begin(), b.first_dims.end());
  const uint32_t dims = b.first_dims.back();
  // Counts the factors of each dim, then fills in the slots in order.
  std::vector<uint32_t> ends(dims + 1, 0);
  for (const auto& [dim, factor] : b.pairs) ++ends[dim + 1];
  for (uint32_t dim = 0; dim < dims; ++dim) {
    rule.has_compound_dims |= ends[dim + 1] > 1;
    ends[dim + 1] = ends[dim] + std::max(ends[dim + 1], uint32_t{1});
  }
  rules.dim_slots.insert(rules.dim_slots.end(), ends.begin(), ends.end());
  rule.slot_count = ends[dims];
  rules.slots.resize(rules.slots.size() + rule.slot_count, kNoIndex);
  uint32_t* const slots = rules.slots.data() + rule.first_slot;
  for (const auto& [dim, factor] : b.pairs) slots[ends[dim]++] = factor;
  // A dim without a factor has one of its own, of size 1.
  for (uint32_t slot = 0; slot < rule.slot_count; ++slot) {
    if (slots[slot] != kNoIndex) continue;
    slots[slot] = static_cast<uint32_t>(rules.factors.size() - rule.first_factor);
    rules.factors.push_back({});
  }
  rule.factor_count = static_cast<uint32_t>(rules.factors.size() - rule.first_factor);
}

}  // namespace

const OperationRow* find_operation_row(std::string_view name) {
  static const auto* const rows = [] {
    auto* map = new std::unordered_map<std::string_view, const OperationRow*>;
    for (const OperationRow& row : kRows) map->emplace(row.name, &row);
    return map;
  }();
  const auto found = rows->find(name);
  return found == rows->end() ? nullptr : found->second;
}

FactorRules build_factor_rules(const Program& program, Diagnostics& diagnostics) {
  FactorRules rules;
  rules.rules.resize(program.operations.size());
  RuleBuilder b{.program = program, .operation = program.operations.front(), .diagnostics = diagnostics};
  for (const OperationIndex id : operations_in_order(program)) {
    const ProgramOperation& operation = program.operations[id];
    const BuildFactors build = operation.kind == Edge     ? build_edge
                               : operation.row == nullptr ? nullptr
                                                          : operation.row->build;
    if (build == nullptr) continue;
    RuleBuilder builder{.program = program, .operation = operation, .id = id, .diagnostics = diagnostics};
    builder.factors = std::move(b.factors);  // keeps the memory of the vectors
    builder.first_dims = std::move(b.first_dims);
    builder.pairs = std::move(b.pairs);
    builder.factors.clear();
    builder.first_dims.clear();
    builder.pairs.clear();
    uint32_t dims = 0;
    for (uint32_t i = 0; i < tensors_of(builder); ++i) {
      builder.first_dims.push_back(dims);
      dims += static_cast<uint32_t>(tensor_shape(builder, i).size());
    }
    builder.first_dims.push_back(dims);
    build(builder);
    if (!builder.is_bad) add_rule(builder, rules);
    b.factors = std::move(builder.factors);
    b.first_dims = std::move(builder.first_dims);
    b.pairs = std::move(builder.pairs);
  }
  return rules;
}

uint32_t inputs_of(const RuleBuilder& b) { return input_count(b.operation); }

uint32_t tensors_of(const RuleBuilder& b) { return inputs_of(b) + b.operation.result_count; }

std::span<const int64_t> tensor_shape(const RuleBuilder& b, uint32_t tensor) {
  return shape_of(b.program, tensor_of(b.program, b.operation, tensor));
}

void add_factor(RuleBuilder& b, int64_t size, FactorKind kind, bool is_blocked) {
  b.factors.push_back({.size = size, .kind = kind, .is_blocked = is_blocked});
}

void map_dim(RuleBuilder& b, uint32_t tensor, int64_t dim) {
  if (dim != kUnmapped)
    b.pairs.emplace_back(b.first_dims[tensor] + static_cast<uint32_t>(dim),
                         static_cast<uint32_t>(b.factors.size() - 1));
}

void map_all(RuleBuilder& b, int64_t dim) {
  for (uint32_t i = 0; i < tensors_of(b); ++i) {
    if (b.first_dims[i + 1] > b.first_dims[i]) map_dim(b, i, dim);
  }
}

void reject(RuleBuilder& b, std::string message) {
  if (!b.is_bad) program_fault(b.program, b.operation, std::move(message), b.diagnostics);
  b.is_bad = true;
}

bool read_attribute(RuleBuilder& b, std::string_view name, std::vector<int64_t>& numbers) {
  if (read_integers(attribute_of(b.program, b.operation, name), numbers)) return true;
  reject(b, fmt::format("attribute `{}` of {} is not a list of integers", name, b.operation.name));
  return false;
}

bool read_attribute(RuleBuilder& b, std::string_view name, int64_t& number) {
  if (read_integer(attribute_of(b.program, b.operation, name), number)) return true;
  reject(b, fmt::format("attribute `{}` of {} is not an integer", name, b.operation.name));
  return false;
}

bool read_dims(RuleBuilder& b, std::string_view attribute, std::string_view field, int64_t rank,
               std::vector<int64_t>& dims) {
  dims.clear();
  const std::string_view text = find_field(attribute, field);
  bool is_good = text.empty() || read_integers(text, dims);
  for (size_t i = 0; is_good && i < dims.size(); ++i) {
    is_good = dims[i] >= 0 && dims[i] < rank &&
              std::find(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(i), dims[i]) ==
                  dims.begin() + static_cast<ptrdiff_t>(i);
  }
  if (!is_good) reject(b, fmt::format("`{}` of {} are not dims of its tensor", field, b.operation.name));
  return is_good;
}

bool expect_counts(RuleBuilder& b, uint32_t inputs, uint32_t results) {
  if (inputs_of(b) == inputs && b.operation.result_count == results) return true;
  reject(b, fmt::format("{} has {} operands and {} results, not {} and {}", b.operation.name, inputs_of(b),
                        b.operation.result_count, inputs, results));
  return false;
}

bool expect_rank(RuleBuilder& b, uint32_t tensor, size_t rank) {
  if (tensor_shape(b, tensor).size() == rank) return true;
  reject(b, fmt::format("a tensor of {} has {} dims, not {}", b.operation.name, tensor_shape(b, tensor).size(), rank));
  return false;
}

}  // namespace tpplan::programs
