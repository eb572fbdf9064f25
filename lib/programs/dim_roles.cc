#include "programs/dim_roles.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "programs/add_edges.h"
#include "programs/argument_behind.h"
#include "programs/attribute_text.h"
#include "programs/operation_rules.h"
#include "programs/project_factors.h"
#include "programs/split_constants.h"

namespace tpplan::programs {
namespace {

// Dims of values that operations treat as one are a class: union-find over the indexes of Program::sizes.
struct DimClasses {
  std::vector<uint32_t> parents;
};

uint32_t dim_class(DimClasses& c, uint32_t dim) {
  while (c.parents[dim] != dim) dim = c.parents[dim] = c.parents[c.parents[dim]];
  return dim;
}

void join_dims(DimClasses& c, uint32_t a, uint32_t b) { c.parents[dim_class(c, a)] = dim_class(c, b); }

// Joins the dims of an operation whose major factor is the same. A dim of a reshape that merges others belongs to its
// major one: shards along it are shards of that.
void join_factors_of(const Program& p, const FactorRules& rules, OperationIndex id, DimClasses& classes) {
  const FactorRule& rule = rules.rules[id];
  std::vector<uint32_t> first_dim(rule.factor_count, kNoIndex);
  for (uint32_t tensor = 0; tensor < rule.tensor_count; ++tensor) {
    const ValueIndex value = tensor_of(p, p.operations[id], tensor);
    const uint32_t* const dims = rules.tensors.data() + rule.first_tensor + tensor;
    for (uint32_t d = 0; d < dims[1] - dims[0]; ++d) {
      const uint32_t* const slots = rules.dim_slots.data() + rule.first_dim + dims[0] + d;
      if (slots[0] == slots[1]) continue;
      const uint32_t factor = factor_at(rules, rule, slots[0]), dim = p.values[value].first_dim + d;
      if (rules.factors[rule.first_factor + factor].size == 1) continue;
      if (first_dim[factor] == kNoIndex)
        first_dim[factor] = dim;
      else
        join_dims(classes, first_dim[factor], dim);
    }
  }
}

DimClasses classify_dims(const Program& recorded) {
  DimClasses classes;
  Program p = recorded;
  Diagnostics ignored;  // the propagation reports the same
  split_constants(p, ignored);
  if (!has_errors(ignored)) add_edges(p, ignored);
  classes.parents.resize(p.sizes.size());
  std::iota(classes.parents.begin(), classes.parents.end(), 0u);
  if (has_errors(ignored)) return classes;
  const FactorRules rules = build_factor_rules(p, ignored);
  for (const OperationIndex id : operations_in_order(p)) {
    if (rules.rules[id].exists) join_factors_of(p, rules, id, classes);
  }
  for (ValueIndex value = 0; value < p.values.size(); ++value) {  // arguments of loops
    const ProgramValue& v = p.values[value];
    for (uint32_t d = 0; v.holder != value && d < v.rank; ++d)
      join_dims(classes, v.first_dim + d, p.values[v.holder].first_dim + d);
  }
  return classes;
}

struct RoleSearch {
  const Program& program;
  const std::vector<bool>& is_param;
  DimClasses classes;
  std::vector<std::vector<ArgumentDim>> dims{};
};

uint32_t dim_class(RoleSearch& s, ValueIndex value, int64_t dim) {
  return dim_class(s.classes, s.program.values[value].first_dim + static_cast<uint32_t>(dim));
}

// Returns the parameter that a value is computed from; kNoIndex if it is none.
ValueIndex param_behind(const RoleSearch& s, ValueIndex value) {
  const ValueIndex argument = argument_behind(s.program, value);
  return argument < s.is_param.size() && s.is_param[argument] ? argument : kNoIndex;
}

// Calls `visit(dim)` for the dims of a parameter in a class.
template <typename Visit>
void visit_dims(RoleSearch& s, ValueIndex param, uint32_t in_class, const Visit& visit) {
  for (size_t d = 0; d < s.dims[param].size(); ++d) {
    if (dim_class(s, param, static_cast<int64_t>(d)) == in_class)
      visit(s.dims[param][d], shape_of(s.program, param)[d]);
  }
}

// A loop over layers takes one index of each stacked parameter in each turn.
void find_layers(RoleSearch& s, const ProgramOperation& slice) {
  const ValueIndex param = param_behind(s, operand_of(s.program, slice, 0));
  if (param == kNoIndex || s.program.blocks[slice.block].parent == kNoIndex) return;
  const auto in = shape_of(s.program, operand_of(s.program, slice, 0)), out = shape_of(s.program, slice.first_result);
  for (size_t d = 0; d < in.size() && d < out.size(); ++d) {
    if (in[d] == 1 || out[d] != 1) continue;
    visit_dims(s, param, dim_class(s, operand_of(s.program, slice, 0), static_cast<int64_t>(d)),
               [](ArgumentDim& dim, int64_t) { dim.role = DimRole::Layers; });
  }
}

// True if an operation computes its result along the dims of its operand.
bool follows_dims(const ProgramOperation& operation) {
  return operation.row != nullptr && operation.result_count == 1 &&
         (operation.row->is_elementwise || operation.kind == OperationClass::Constraint ||
          operation.name == "stablehlo.reshape" || operation.name == "stablehlo.transpose" ||
          operation.name == "stablehlo.broadcast_in_dim");
}

// Lists the parameters of the products and sums that compute a value.
void list_projections(const RoleSearch& s, ValueIndex value, int depth, std::set<ValueIndex>& params) {
  constexpr int kMostSteps = 8;
  const OperationIndex maker = s.program.values[value].maker;
  if (const ValueIndex param = param_behind(s, value); param != kNoIndex) params.insert(param);
  if (maker == kNoIndex || depth == kMostSteps) return;
  const ProgramOperation& operation = s.program.operations[maker];
  const bool is_product = operation.name == "stablehlo.dot_general" || operation.name == "stablehlo.convolution";
  for (uint32_t i = 0; i < operation.operand_count; ++i) {
    const ValueIndex operand = operand_of(s.program, operation, i);
    if (is_product && param_behind(s, operand) != kNoIndex) params.insert(param_behind(s, operand));
    if (follows_dims(operation)) list_projections(s, operand, depth + 1, params);
  }
}

// Returns the dim that a slice with stride 1 shortens, and where it begins; dim -1 if there is not one such dim.
std::pair<int64_t, int64_t> sliced_dim(const Program& p, const ProgramOperation& slice) {
  std::vector<int64_t> starts, strides;
  const auto in = shape_of(p, operand_of(p, slice, 0)), out = shape_of(p, slice.first_result);
  if (!read_integers(attribute_of(p, slice, "start_indices"), starts) || starts.size() != in.size() ||
      !read_integers(attribute_of(p, slice, "strides"), strides) || strides.size() != in.size())
    return {-1, 0};
  std::pair<int64_t, int64_t> found{-1, 0};
  for (size_t d = 0; d < in.size(); ++d) {
    if (in[d] == out[d]) continue;
    if (found.first != -1 || strides[d] != 1) return {-1, 0};
    found = {static_cast<int64_t>(d), starts[d]};
  }
  return found;
}

// Finds values that several slices split along one dim, and the dims of the parameters along which they are computed.
void find_parts(RoleSearch& s, const std::vector<OperationIndex>& slices) {
  std::map<std::pair<ValueIndex, int64_t>, std::map<int64_t, OperationIndex>> splits;
  for (const OperationIndex id : slices) {
    const auto [dim, start] = sliced_dim(s.program, s.program.operations[id]);
    if (dim >= 0) splits[{operand_of(s.program, s.program.operations[id], 0), dim}][start] = id;
  }
  for (const auto& split : splits) {
    if (split.second.size() < 2) continue;
    const ValueIndex value = split.first.first;
    const int64_t of_value = split.first.second, size = shape_of(s.program, value)[static_cast<size_t>(of_value)];
    std::set<ValueIndex> params;
    list_projections(s, value, 0, params);
    for (const ValueIndex param : params) {
      visit_dims(s, param, dim_class(s, value, of_value), [&](ArgumentDim& dim, int64_t whole) {
        if (dim.role != DimRole::Other || whole % size != 0) return;
        dim.role = DimRole::Parts;
        for (const auto& [start, id] : split.second) {
          if (start > 0) dim.splits.push_back(start * (whole / size));
          dim.slices.push_back(id);
        }
      });
    }
  }
}

// An operand of a product in attention: the classes of its batch dims, of its contracted dim and of the others.
struct ProductSide {
  std::vector<uint32_t> batch, free;
  uint32_t contracted = kNoIndex;
};

// Returns false unless an activation is contracted along one dim, for each index of batch dims.
bool read_side(RoleSearch& s, const ProgramOperation& product, uint32_t operand, ProductSide& side) {
  const std::string_view text = attribute_of(s.program, product, "dot_dimension_numbers");
  const ValueIndex value = operand_of(s.program, product, operand);
  std::vector<int64_t> batch, contracted;
  if (!read_integers(find_field(text, operand == 0 ? "lhs_batching_dimensions" : "rhs_batching_dimensions"), batch) ||
      !read_integers(find_field(text, operand == 0 ? "lhs_contracting_dimensions" : "rhs_contracting_dimensions"),
                     contracted) ||
      contracted.size() != 1 || batch.empty() || param_behind(s, value) != kNoIndex)
    return false;
  for (int64_t dim = 0; dim < s.program.values[value].rank; ++dim) {
    const uint32_t in_class = dim_class(s, value, dim);
    if (dim == contracted.front())
      side.contracted = in_class;
    else
      (is_in(batch, dim) ? side.batch : side.free).push_back(in_class);
  }
  return true;
}

// Makes two classes of dims heads and head_dim in the parameters that have both. Returns false if there are none.
bool mark_heads(RoleSearch& s, uint32_t heads, uint32_t head_dim, bool is_trial) {
  bool is_found = false;
  for (ValueIndex param = 0; param < s.dims.size(); ++param) {
    bool has_heads = false, has_head_dim = false;
    visit_dims(s, param, heads, [&](ArgumentDim&, int64_t) { has_heads = true; });
    visit_dims(s, param, head_dim, [&](ArgumentDim&, int64_t) { has_head_dim = true; });
    if (!has_heads || !has_head_dim || heads == head_dim) continue;
    is_found = true;
    if (is_trial) continue;
    visit_dims(s, param, heads, [](ArgumentDim& dim, int64_t) { dim.role = DimRole::Heads; });
    visit_dims(s, param, head_dim, [](ArgumentDim& dim, int64_t) { dim.role = DimRole::HeadDim; });
  }
  return is_found;
}

// Attention multiplies queries and keys of a batch of heads and contracts their head_dim; then it multiplies scores and
// values, of which only the values have a head_dim. In the gradient of an expert's weight, both sides have dims of it.
void find_head_dims(RoleSearch& s, const ProgramOperation& product) {
  ProductSide sides[2];
  if (!read_side(s, product, 0, sides[0]) || !read_side(s, product, 1, sides[1])) return;
  for (const uint32_t heads : sides[0].batch) {
    mark_heads(s, heads, sides[0].contracted, false);
    const auto is_head_dim = [&](uint32_t dim) { return mark_heads(s, heads, dim, true); };
    const bool has[] = {std::ranges::any_of(sides[0].free, is_head_dim),
                        std::ranges::any_of(sides[1].free, is_head_dim)};
    if (has[0] == has[1]) continue;
    for (const uint32_t dim : sides[has[0] ? 0 : 1].free) mark_heads(s, heads, dim, false);
  }
}

// Layers pass values of the hidden size to each other, so most parameters and inputs have a dim of its class.
void find_hidden(RoleSearch& s) {
  std::map<uint32_t, size_t> counts;
  for (ValueIndex argument = 0; argument < s.dims.size(); ++argument) {
    for (int64_t d = 0; d < s.program.values[argument].rank; ++d) {
      if (!s.is_param[argument] || s.dims[argument][static_cast<size_t>(d)].role == DimRole::Other)
        ++counts[dim_class(s, argument, d)];
    }
  }
  const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  for (ValueIndex param = 0; most != counts.end() && param < s.dims.size(); ++param) {
    visit_dims(s, param, most->first, [](ArgumentDim& dim, int64_t) {
      if (dim.role == DimRole::Other) dim.role = DimRole::Hidden;
    });
  }
}

}  // namespace

std::vector<std::vector<ArgumentDim>> find_dim_roles(const Program& recorded, const std::vector<bool>& is_param) {
  RoleSearch s{.program = recorded, .is_param = is_param, .classes = classify_dims(recorded)};
  s.dims.resize(is_param.size());
  for (ValueIndex argument = 0; argument < is_param.size(); ++argument) {
    if (is_param[argument]) s.dims[argument].resize(recorded.values[argument].rank);
  }
  std::vector<OperationIndex> slices;
  for (const OperationIndex id : operations_in_order(recorded)) {
    const ProgramOperation& operation = recorded.operations[id];
    if (operation.name == "stablehlo.dynamic_slice" && operation.operand_count > 0) find_layers(s, operation);
    if (operation.name == "stablehlo.dot_general" && operation.operand_count == 2) find_head_dims(s, operation);
    if (operation.name == "stablehlo.slice" && operation.operand_count == 1) slices.push_back(id);
  }
  find_parts(s, slices);
  find_hidden(s);
  return s.dims;
}

}  // namespace tpplan::programs
