// The way of running of jax.shard_map: each rank runs the same program on its pieces, and only what the program calls
// moves anything. A graph recorded so (python -m tpplan.export --shard-map) says with `in_spec` and `out_spec` how
// values come in and leave, names its collectives, and notes sizes of which ranks have their own as `local`.
#include <algorithm>

#include "ops/op_names.h"
#include "walk/local_ops.h"
#include "walk/node_args.h"
#include "walk/operations.h"
#include "walk/param_layouts.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

// The values are the operand's, whatever stands along which dim.
constexpr std::string_view kSameValues = " to clone int float detach reshape unsqueeze squeeze expand ";
// Of what is n times too much they make what is n times too much; of a maximum of a rank's own none of them is one.
constexpr std::string_view kScaling =
    " to clone float reshape unsqueeze squeeze expand permute sum neg __getitem__ split stop_gradient mul div matmul "
    "einsum "
    "select local_scale ";

// True where a value only gets or loses dims of size 1, or is repeated along them.
bool keeps_elements(const LocalOp& op, const Operand& x) {
  if (op.name != "reshape") return true;
  const auto ones = [](std::span<const int64_t> shape) {
    std::vector<int64_t> sizes;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(sizes), [](int64_t n) { return n != 1; });
    return sizes;
  };
  return ones(x.shape) == ones(out_shape(op.call));
}

// Where dim `along` of the operand stands in the result; -1 where nobody knows.
int counted_dim(const LocalOp& op, const Operand& x, int along) {
  const size_t before = x.shape.size(), behind = out_shape(op.call).size();
  if (lists_op(" to clone int float detach expand ", op.name)) return along + static_cast<int>(behind - before);
  if (op.name != "unsqueeze") return -1;
  const auto at = static_cast<int>(from_end(number_at(op.call, 1, "dim", 0).traced, behind));
  return at <= along ? along + 1 : along;
}

bool run_same_values(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x || !lists_op(kSameValues, op.name) || !keeps_elements(op, *x)) return false;
  const LocalFact* known = fact_of(op.walk, x->value);
  const ValueId root = root_of(op.walk, x->value);
  std::optional<LocalFact> fact;
  if (known != nullptr) fact = *known;
  const int along = fact && fact->counts_along >= 0 ? counted_dim(op, *x, fact->counts_along) : -1;
  run_by_rule(op.walk, op.node, op.index);
  if (op.walk.crash != kNoId) return true;
  if (!is_float(op.walk, x->value)) op.walk.same_integers[result_of(op)] = root;
  if (fact) {
    fact->counts_along = along;
    set_fact(op, std::move(*fact));
  }
  return true;
}

// What all ranks have and divided by their number is a term of the sum that the other operand is: the sum of both is
// open.
bool add_terms(LocalOp& op) {
  if (op.name != "add" && op.name != "sub") return false;
  const std::vector<ValueId> values = values_in(op.walk, op.node);
  if (values.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const LocalFact* fact = fact_of(op.walk, values[i]);
    const Spread open = op.walk.table.layouts[op.walk.layout_of[values[1 - i]]];
    Spread own = op.walk.table.layouts[op.walk.layout_of[values[i]]];
    if (!is_scaled(fact) || !is_plain_fact(fact_of(op.walk, values[1 - i])) || open.partial == 0 || own.partial != 0)
      continue;
    int64_t ways = 1;
    for (size_t axis = 0; axis < op.walk.axes.size(); ++axis) {
      if ((open.partial & axis_bit(axis)) != 0) ways *= static_cast<int64_t>(op.walk.table.maps.axes[axis]);
    }
    if (fact->numerator * ways != fact->denominator || (cut_axes(op.walk.table, own) & open.partial) != 0) continue;
    own.partial = open.partial;
    const SlotId before = op.walk.slot_of[values[i]];
    set_slot(op.walk, values[i], derived(op.walk, before, own, kNoRule));
    run_by_rule(op.walk, op.node, op.index);
    set_slot(op.walk, values[i], before);
    return true;
  }
  return false;
}

// By how much each factor is too large; a term of a sum must be as much too large as the others.
void run_scaled(LocalOp& op, const LocalFact& first) {
  if (add_terms(op)) return;
  LocalFact fact{.by_rank = {}, .whole = {}, .scaled_by = first.scaled_by};
  const std::vector<ValueId> values = values_in(op.walk, op.node);
  if (lists_op(" add sub where cat ", op.name)) {
    for (size_t i = op.name == "where" ? 1 : 0; i < values.size(); ++i) {
      const LocalFact* other = fact_of(op.walk, values[i]);
      const bool same =
          is_scaled(other) && other->numerator == first.numerator && other->denominator == first.denominator;
      if (!same && !op.walk.table.layouts[op.walk.layout_of[values[i]]].zero)
        return run_wrong(op, Code::TP5109, fault_of(op, first));
    }
    for (const uint32_t at : op.call.args) {
      if (is_number(&op.walk.graph.args[at]) && op.walk.graph.args[at].number != 0 && op.name != "cat")
        return run_wrong(op, Code::TP5109, fault_of(op, first));
    }
    scale(fact, first.numerator, first.denominator);
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      const LocalFact* other = fact_of(op.walk, values[i]);
      if (!is_plain_fact(other) && !is_scaled(other)) return run_wrong(op, Code::TP5113, fault_of(op, *other));
      if (!is_scaled(other)) continue;
      const bool below = op.name == "div" && values[i] != values[0];
      scale(fact, below ? other->denominator : other->numerator, below ? other->numerator : other->denominator);
    }
  }
  run_by_rule(op.walk, op.node, op.index);
  if (op.walk.crash != kNoId) return;
  for (uint32_t i = op.node.out_begin; i < op.node.out_end; ++i)
    op.walk.facts[op.walk.slot_of[op.walk.graph.outs[i]]] = fact;
}

// local_scale(x, n, d): the program multiplied by a number that is n/d times what it is in the whole model.
void run_local_scale(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return give_up(op);
  const LocalFact* known = fact_of(op.walk, x->value);
  LocalFact fact = known == nullptr ? LocalFact{} : *known;
  if (fact.kind != FactKind::None && !is_plain_fact(known)) return give_up(op);
  const int64_t n = number_at(op.call, 1, {}, 1).traced, d = number_at(op.call, 2, {}, 1).traced;
  if (n <= 0 || d <= 0 || n > kFarInteger || d > kFarInteger) return give_up(op);
  scale(fact, n, d);
  if (fact.scaled_by.empty()) fact.scaled_by = "a factor is a rank's own size";
  give_result(op, *x->layout);
  set_fact(op, fact);
}

struct LocalRow {
  std::string_view name;
  void (*run)(LocalOp&);
};

constexpr LocalRow kLocalOps[] = {
    {"in_spec", take_in},
    {"out_spec", let_out},
    {"psum", run_psum},
    {"pmax", run_extremum},
    {"pmin", run_extremum},
    {"all_gather", run_all_gather},
    {"reduce_scatter", run_reduce_scatter},
    {"all_to_all", run_all_to_all},
    {"axis_index", run_axis_index},
    {"iota", run_iota},
    {"local_scale", run_local_scale},
};

// What is recorded with a word behind its arguments: a loop, a branch, a call to the host, in which anything may stand.
bool holds_a_program(const LocalOp& op) {
  return std::any_of(op.call.args.begin(), op.call.args.end(),
                     [&](uint32_t at) { return op.walk.graph.args[at].kind == ArgKind::Other; });
}

// What is alike on all ranks: constants fit to functions of every integer.
void run_fill(LocalOp& op) {
  const GraphArg* value = find_arg(op.call, 1, {});
  std::optional<IndexArgument> constant;
  if (value != nullptr && !is_float(op.walk, result_of(op))) constant = index_argument(op, *value);
  const bool zeros = op.name == "zeros" && !is_float(op.walk, result_of(op));
  run_by_rule(op.walk, op.node, op.index);
  if (zeros)
    set_fact(op, {.kind = FactKind::Table,
                  .by_rank = std::vector<RankFunction>(op.walk.ranks, constant_function(0)),
                  .whole = constant_function(0),
                  .scaled_by = {}});
  else if (constant)
    set_fact(op, {.kind = FactKind::Table, .by_rank = constant->by_rank, .whole = constant->whole, .scaled_by = {}});
}

void run_known(LocalOp& op) {
  for (const LocalRow& row : kLocalOps) {
    if (row.name == op.name) return row.run(op);
  }
  if (op.name == "full" || op.name == "zeros") return run_fill(op);
  if ((op.name == "amax" || op.name == "amin") && run_open_maximum(op)) return;
  if (op.name == "dynamic_slice") return run_dynamic_slice(op) ? void() : give_up(op);
  if (run_same_values(op)) return;
  Linearity by_element{};
  const bool pointwise = find_pointwise(op.name, by_element);
  const LocalFact* odd = nullptr;
  bool table = false;
  for (const ValueId value : values_in(op.walk, op.node)) {
    const LocalFact* fact = fact_of(op.walk, value);
    table = table || (fact != nullptr && fact->kind == FactKind::Table);
    if (odd == nullptr && !is_plain_fact(fact)) odd = fact;
  }
  if ((op.name == "embedding" || op.name == "gather")) {
    const auto x = tensor_at(op.call, op.name == "embedding" ? 1 : 0);
    const size_t dim = op.name == "embedding" ? 0 : static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
    const bool cut = x && dim < x->layout->dims.size() && !is_whole(op.walk.table.maps, x->layout->dims[dim]);
    if (odd != nullptr || cut) {
      if (run_take(op)) return;
      if (odd != nullptr) return give_up(op);
    }
  }
  if ((table || odd != nullptr) && run_count(op)) return;
  const bool undescribed = find_rule(op.name) == nullptr && (has_own_number(op) || holds_a_program(op));
  if (undescribed) return give_up(op);
  if (odd == nullptr && !(has_own_number(op) && pointwise)) {
    if (table && pointwise && run_table(op)) return;  // constants stay constants
    return run_by_rule(op.walk, op.node, op.index);
  }
  if (pointwise && run_table(op)) return;
  if (run_mask(op)) return;
  if (odd == nullptr || odd->kind == FactKind::Table) return give_up(op);
  const LocalFact fact = *odd;
  if (is_scaled(&fact) && lists_op(kScaling, op.name)) return run_scaled(op, fact);
  if (is_scaled(&fact) && lists_op(" add sub where cat ", op.name)) return run_scaled(op, fact);
  run_wrong(op, code_of(fact), fault_of(op, fact));
}

}  // namespace

bool is_shard_map_graph(const OpGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) {
    return node.kind == NodeKind::Op && graph.strings[node.name] == "in_spec";
  });
}

Spread shard_map_param_layout(Walk& walk, ParamId param, RuleId& rule) {
  Spread layout = param_layout(walk, param, rule);
  layout.is_dtensor = false;
  layout.claim.clear();
  layout.claimed_shape.clear();
  return layout;
}

// Modules are not known to such a program: values pass their borders as they are.
void cross_shard_map_module(Walk& walk, const GraphNode& node) {
  for (uint32_t i = node.crossing_begin; i < node.crossing_end; ++i)
    set_slot(walk, walk.graph.crossings[i].to, walk.slot_of[walk.graph.crossings[i].from]);
}

void run_shard_map_op(Walk& walk, const GraphNode& node, uint32_t index) {
  // The sizes of which ranks have their own are worked out before anybody asks.
  each_arg(walk.graph, node, [&](const GraphArg& arg) {
    if (arg.kind == ArgKind::Size) std::ignore = size_number(walk, arg.id);
  });
  LocalOp op{.walk = walk, .node = node, .index = index, .call = call_of(walk, node), .name = {}};
  begin_call(op.call);
  op.name = op.call.name;
  if (node.out_begin == node.out_end) return run_by_rule(walk, node, index);
  run_known(op);
}

}  // namespace tpplan
