// The runtime of jax.shard_map: each rank runs the same program on its shards, and only the collectives in the program
// communicate. A graph traced in this way (python -m tpplan.export --shard-map) has `in_spec` and `out_spec` for inputs
// and outputs, its collectives by name, and local sizes as `local`.
#include "walk/local/shard_map_run.h"

#include <algorithm>

#include "ops/op_rules.h"
#include "walk/local/local_ops.h"
#include "walk/operation/operations.h"
#include "walk/state/node_args.h"
#include "walk/state/param_layouts.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

// Operations whose result has the values of the operand, perhaps in another shape.
constexpr auto kSameValues = op_set({OpId::To, OpId::Clone, OpId::Int, OpId::Float, OpId::Detach, OpId::Reshape,
                                     OpId::Unsqueeze, OpId::Squeeze, OpId::Expand});
// Operations whose result is n times too large if the operand is.
constexpr auto kScaling = op_set({OpId::To, OpId::Clone, OpId::Float, OpId::Reshape, OpId::Unsqueeze, OpId::Squeeze,
                                  OpId::Expand, OpId::Permute, OpId::Sum, OpId::Neg, OpId::GetItem, OpId::Split,
                                  OpId::Mul, OpId::Div, OpId::Matmul, OpId::Einsum, OpId::Select, OpId::LocalScale});
// Operations with terms that must all have the same scale.
constexpr auto kTerms = op_set({OpId::Add, OpId::Sub, OpId::Where, OpId::Cat});
// Operations that leave the dims of the operand as the last ones.
constexpr auto kLastDimsStay = op_set({OpId::To, OpId::Clone, OpId::Int, OpId::Float, OpId::Detach, OpId::Expand});

// True if the operation only adds or removes dims of size 1, or repeats the value along them.
bool has_same_elements(const LocalOp& op, const Operand& x) {
  if (op.node.op != OpId::Reshape) return true;
  const auto ones = [](std::span<const int64_t> shape) {
    std::vector<int64_t> sizes;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(sizes), [](int64_t n) { return n != 1; });
    return sizes;
  };
  return ones(x.shape) == ones(out_shape(op.call));
}

// Returns the dim of the result that was dim `along` of the operand; -1 if it is unknown.
int counted_dim(const LocalOp& op, const Operand& x, int along) {
  const size_t before = x.shape.size(), after = out_shape(op.call).size();
  if (kLastDimsStay[index_of(op.node.op)]) return along + static_cast<int>(after - before);
  if (op.node.op != OpId::Unsqueeze) return -1;
  const auto at = static_cast<int>(dim_index(number_at(op.call, 1, "dim", 0).traced, after));
  return at <= along ? along + 1 : along;
}

bool run_same_values(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x || !kSameValues[index_of(op.node.op)] || !has_same_elements(op, *x)) return false;
  const LocalFact* known = local_fact_of(op.walk, x->value);
  const ValueId root = value_with_same_integers(op.walk, x->value);
  std::optional<LocalFact> fact;
  if (known != nullptr) fact = *known;
  const int along = fact && fact->counts_along >= 0 ? counted_dim(op, *x, fact->counts_along) : -1;
  run_by_rule(op.walk, op.node, op.index);
  if (op.walk.out.crash != kNoId) return true;
  if (!is_float(op.walk, x->value)) op.walk.memory.same_integers[result_of(op)] = root;
  if (fact) {
    fact->counts_along = along;
    set_fact(op, std::move(*fact));
  }
  return true;
}

// Adds a partial value and a replicated value divided by the number of ranks. The latter counts as partial too, so the
// sum is partial.
bool add_terms(LocalOp& op) {
  if (op.node.op != OpId::Add && op.node.op != OpId::Sub) return false;
  const std::vector<ValueId> values = input_values(op.walk, op.node);
  if (values.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const LocalFact* fact = local_fact_of(op.walk, values[i]);
    const ValueLayout partial = op.walk.memory.table.layouts[op.walk.memory.layout_of[values[1 - i]]];
    ValueLayout scaled = op.walk.memory.table.layouts[op.walk.memory.layout_of[values[i]]];
    if (!is_scaled(fact) || !is_as_in_global_program(local_fact_of(op.walk, values[1 - i])) || partial.partial == 0 ||
        scaled.partial != 0)
      continue;
    int64_t shards = 1;
    for (size_t axis = 0; axis < op.walk.in.axes.size(); ++axis) {
      if ((partial.partial & axis_bit(axis)) != 0) shards *= static_cast<int64_t>(op.walk.memory.table.maps.axes[axis]);
    }
    if (fact->numerator * shards != fact->denominator ||
        (sharding_axes(op.walk.memory.table, scaled) & partial.partial) != 0)
      continue;
    scaled.partial = partial.partial;
    const SlotId before = op.walk.memory.slot_of[values[i]];
    set_slot(op.walk, values[i], derive_slot(op.walk, before, scaled, kNoRule));
    run_by_rule(op.walk, op.node, op.index);
    set_slot(op.walk, values[i], before);
    return true;
  }
  return false;
}

// Computes the scale of the result from those of its operands. Terms of a sum must all have the same scale.
void run_scaled(LocalOp& op, const LocalFact& first) {
  if (add_terms(op)) return;
  LocalFact fact{.by_rank = {}, .global = {}, .scaled_by = first.scaled_by};
  const std::vector<ValueId> values = input_values(op.walk, op.node);
  if (kTerms[index_of(op.node.op)]) {
    for (size_t i = op.node.op == OpId::Where ? 1 : 0; i < values.size(); ++i) {
      const LocalFact* other = local_fact_of(op.walk, values[i]);
      const bool same =
          is_scaled(other) && other->numerator == first.numerator && other->denominator == first.denominator;
      if (!same && !op.walk.memory.table.layouts[op.walk.memory.layout_of[values[i]]].zero)
        return run_as_wrong(op, Code::ReplicatedValueReduced, error_of(op, first));
    }
    for (const uint32_t at : op.call.args) {
      if (is_number(&op.walk.in.graph.args[at]) && op.walk.in.graph.args[at].number != 0 && op.node.op != OpId::Cat)
        return run_as_wrong(op, Code::ReplicatedValueReduced, error_of(op, first));
    }
    scale_fact(fact, first.numerator, first.denominator);
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      const LocalFact* other = local_fact_of(op.walk, values[i]);
      if (!is_as_in_global_program(other) && !is_scaled(other))
        return run_as_wrong(op, Code::ReductionOverShard, error_of(op, *other));
      if (!is_scaled(other)) continue;
      const bool below = op.node.op == OpId::Div && values[i] != values[0];
      scale_fact(fact, below ? other->denominator : other->numerator, below ? other->numerator : other->denominator);
    }
  }
  run_by_rule(op.walk, op.node, op.index);
  if (op.walk.out.crash != kNoId) return;
  for (uint32_t i = op.node.out_begin; i < op.node.out_end; ++i)
    op.walk.memory.facts[op.walk.memory.slot_of[op.walk.in.graph.outs[i]]] = fact;
}

// local_scale(x, n, d): the program multiplied by a number that is n/d times the one of the global program.
void run_local_scale(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return mark_unknown(op);
  const LocalFact* known = local_fact_of(op.walk, x->value);
  LocalFact fact = known == nullptr ? LocalFact{} : *known;
  if (fact.kind != FactKind::None && !is_as_in_global_program(known)) return mark_unknown(op);
  const int64_t n = number_at(op.call, 1, {}, 1).traced, d = number_at(op.call, 2, {}, 1).traced;
  if (n <= 0 || d <= 0 || n > kFarInteger || d > kFarInteger) return mark_unknown(op);
  scale_fact(fact, n, d);
  if (fact.scaled_by.empty()) fact.scaled_by = "a factor is a local size";
  set_result(op, *x->layout);
  set_fact(op, fact);
}

// True if an argument is not traced: a loop, a branch or a call to the host, which can contain anything.
bool holds_a_program(const LocalOp& op) {
  return std::any_of(op.call.args.begin(), op.call.args.end(),
                     [&](uint32_t at) { return op.walk.in.graph.args[at].kind == ArgKind::Other; });
}

// Runs a fill with a constant. It is a constant function of any integer, identical on all ranks.
void run_fill(LocalOp& op) {
  const GraphArg* value = find_arg(op.call, 1, {});
  std::optional<IndexArgument> constant;
  if (value != nullptr && !is_float(op.walk, result_of(op))) constant = index_argument(op, *value);
  const bool zeros = op.node.op == OpId::Zeros && !is_float(op.walk, result_of(op));
  run_by_rule(op.walk, op.node, op.index);
  if (zeros)
    set_fact(op, {.kind = FactKind::Integers,
                  .by_rank = std::vector<RankFunction>(op.walk.in.ranks, constant_function(0)),
                  .global = constant_function(0),
                  .scaled_by = {}});
  else if (constant)
    set_fact(op,
             {.kind = FactKind::Integers, .by_rank = constant->by_rank, .global = constant->global, .scaled_by = {}});
}

void run_slice(LocalOp& op) { return run_dynamic_slice(op) ? void() : mark_unknown(op); }

constexpr auto kLocalOps = by_op<void (*)(LocalOp&)>({
    {OpId::InSpec, run_in_spec},
    {OpId::OutSpec, run_out_spec},
    {OpId::Psum, run_psum},
    {OpId::Pmax, run_extremum},
    {OpId::Pmin, run_extremum},
    {OpId::AllGather, run_all_gather},
    {OpId::ReduceScatter, run_reduce_scatter},
    {OpId::AllToAll, run_all_to_all},
    {OpId::AxisIndex, run_axis_index},
    {OpId::Iota, run_iota},
    {OpId::LocalScale, run_local_scale},
    {OpId::Full, run_fill},
    {OpId::Zeros, run_fill},
    {OpId::DynamicSlice, run_slice},
});

void run_known(LocalOp& op) {
  if (const auto run = kLocalOps[index_of(op.node.op)]; run != nullptr) return run(op);
  if ((op.node.op == OpId::Amax || op.node.op == OpId::Amin) && run_partial_maximum(op)) return;
  if (run_same_values(op)) return;
  const bool pointwise = is_elementwise(op.node.op);
  const LocalFact* odd = nullptr;
  bool table = false;
  for (const ValueId value : input_values(op.walk, op.node)) {
    const LocalFact* fact = local_fact_of(op.walk, value);
    table = table || (fact != nullptr && fact->kind == FactKind::Integers);
    if (odd == nullptr && !is_as_in_global_program(fact)) odd = fact;
  }
  if ((op.node.op == OpId::Embedding || op.node.op == OpId::Gather)) {
    const auto x = tensor_at(op.call, op.node.op == OpId::Embedding ? 1 : 0);
    const size_t dim = op.node.op == OpId::Embedding ? 0 : static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
    const bool is_sharded_table =
        x && dim < x->layout->dims.size() && !is_fully_replicated(op.walk.memory.table.maps, x->layout->dims[dim]);
    if (odd != nullptr || is_sharded_table) {
      if (run_lookup(op)) return;
      if (odd != nullptr) return mark_unknown(op);
    }
  }
  if ((table || odd != nullptr) && run_offset_iota(op)) return;
  const bool undescribed = op_row(op.node.op).rule == nullptr && (differs_by_rank(op) || holds_a_program(op));
  if (undescribed) return mark_unknown(op);
  if (odd == nullptr && !(differs_by_rank(op) && pointwise)) {
    if (table && pointwise && run_rank_integers(op)) return;  // constants stay constants
    return run_by_rule(op.walk, op.node, op.index);
  }
  if (pointwise && run_rank_integers(op)) return;
  if (run_mask(op)) return;
  if (odd == nullptr || odd->kind == FactKind::Integers) return mark_unknown(op);
  const LocalFact fact = *odd;
  const size_t at = index_of(op.node.op);
  if (is_scaled(&fact) && (kScaling[at] || kTerms[at])) return run_scaled(op, fact);
  run_as_wrong(op, code_of(fact), error_of(op, fact));
}

}  // namespace

ValueLayout shard_map_param_layout(Walk& walk, ParamId param, RuleId& rule) {
  ValueLayout layout = param_layout(walk, param, rule);
  layout.is_dtensor = false;
  layout.declared.clear();
  layout.declared_shape.clear();
  return layout;
}

// Such a program has no modules, so values pass their boundaries unchanged.
void cross_shard_map_module(Walk& walk, const GraphNode& node) {
  for (uint32_t i = node.crossing_begin; i < node.crossing_end; ++i)
    set_slot(walk, walk.in.graph.crossings[i].to, walk.memory.slot_of[walk.in.graph.crossings[i].from]);
}

void run_shard_map_op(Walk& walk, const GraphNode& node, uint32_t index) {
  // Evaluate sizes that differ by rank before a rule reads them.
  each_arg(walk.in.graph, node, [&](const GraphArg& arg) {
    if (arg.kind == ArgKind::Size) std::ignore = evaluate_size(walk, arg.id);
  });
  LocalOp op{.walk = walk, .node = node, .index = index, .call = op_call_of(walk, node), .name = {}};
  prepare_call(op.call);
  op.name = op.call.name;
  if (node.out_begin == node.out_end) return run_by_rule(walk, node, index);
  run_known(op);
}

}  // namespace tpplan
