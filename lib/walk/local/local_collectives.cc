#include <spdlog/fmt/fmt.h>

#include "sharding/tensor_size.h"
#include "walk/local/local_ops.h"
#include "walk/report/append_call.h"
#include "walk/state/node_args.h"

namespace tpplan {

namespace {

void note_call(LocalOp& op, CollectiveKind kind, size_t axis, const ValueLayout& layout) {
  const ValueId value = input_values(op.walk, op.node).front();
  append_call(op.walk, false, kind, axis, kNone, local_shape(op.walk.memory.table, layout, 0),
              op.walk.in.graph.strings[op.walk.in.graph.values[value].dtype]);
}

bool is_sharded_along(const LocalOp& op, const ValueLayout& layout, size_t axis) {
  return (sharding_axes(op.walk.memory.table, layout) & axis_bit(axis)) != 0;
}

// Reduces over the ranks of an axis. Returns false with the error if they hold different shards.
bool add_up(LocalOp& op, ValueLayout& layout, size_t axis, LocalFact& fact, Code& code, std::string& wrong) {
  const auto shards = static_cast<int64_t>(op.walk.memory.table.maps.axes[axis]);
  if (is_sharded_along(op, layout, axis)) {
    code = Code::ShardsMismatch;
    wrong = fmt::format("{} adds up different shards: {}", op.name, layout_text(op.walk.memory.table, layout));
    return false;
  }
  if ((layout.partial & axis_bit(axis)) == 0 && !layout.zero) {
    scale_fact(fact, shards, 1);
    fact.scaled_by = fmt::format("{} sums a replicated value: it counts {} times", op.name, shards);
  }
  layout.partial &= ~axis_bit(axis);
  return true;
}

}  // namespace

void run_psum(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return mark_unknown(op);
  ValueLayout layout = *x->layout;
  const LocalFact* known = local_fact_of(op.walk, x->value);
  LocalFact fact;
  if (known != nullptr && known->kind == FactKind::Integers && !is_as_in_global_program(known)) return mark_unknown(op);
  if (known != nullptr && !is_as_in_global_program(known) && !is_scaled(known))
    return set_result(op, layout, code_of(*known), error_of(op, *known));
  if (is_scaled(known)) fact = *known;
  Code code{};
  std::string wrong;
  for (const size_t axis : axes_at(op, 1)) {
    note_call(op, CollectiveKind::AllReduce, axis, layout);
    if (!add_up(op, layout, axis, fact, code, wrong)) break;
  }
  set_result(op, layout, code, wrong);
  if (fact.numerator != fact.denominator) set_fact(op, fact);
}

void run_extremum(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return mark_unknown(op);
  const ValueLayout layout = *x->layout;
  const LocalFact* known = local_fact_of(op.walk, x->value);
  LocalFact fact = known == nullptr ? LocalFact{} : *known;
  if (fact.kind != FactKind::None && !is_as_in_global_program(known)) return mark_unknown(op);
  const bool other = fact.pending_maximum != 0 && fact.is_minimum != (op.node.op == OpId::Pmin);
  Code code = Code::ShardsMismatch;
  std::string wrong;
  for (const size_t axis : axes_at(op, 1)) {
    note_call(op, CollectiveKind::AllReduce, axis, layout);
    if ((layout.partial & axis_bit(axis)) != 0) {
      code = Code::PartialUsedAsFull;
      wrong = fmt::format("{} uses a pending partial sum as the full sum", op.name);
    } else if (is_sharded_along(op, layout, axis)) {
      wrong = fmt::format("{} compares different shards: {}", op.name, layout_text(op.walk.memory.table, layout));
    }
    if (!other) fact.pending_maximum &= ~axis_bit(axis);
  }
  set_result(op, layout, code, wrong);
  set_fact(op, fact);
}

void run_all_gather(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return mark_unknown(op);
  ValueLayout layout = *x->layout;
  const LocalFact* known = local_fact_of(op.walk, x->value);
  if (!is_as_in_global_program(known) && !is_scaled(known)) return mark_unknown(op);
  const auto dim = static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  std::vector<size_t> axes = axes_at(op, 2);
  Code code = Code::ShardsMismatch;
  std::string wrong;
  for (auto axis = axes.rbegin(); axis != axes.rend() && dim < layout.dims.size(); ++axis) {
    note_call(op, CollectiveKind::AllGather, *axis, layout);
    if ((layout.partial & axis_bit(*axis)) != 0) {
      code = Code::PartialUsedAsFull;
      wrong = "all_gather gathers a pending partial sum as if it were the full sum";
    }
    bool right = false;
    const DimLayoutId map = layout.dims[dim];
    layout.dims[dim] = gathered_dim(op.walk.memory.table.maps, map, *axis, right);
    if (!right && wrong.empty())
      wrong = fmt::format("all_gather treats dim {} as sharded over its axis, but it is not: {}", dim,
                          dim_layout_text(op.walk.memory.table.maps, map));
  }
  set_result(op, layout, code, wrong);
  if (is_scaled(known)) set_fact(op, *known);
}

void run_reduce_scatter(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return mark_unknown(op);
  ValueLayout layout = *x->layout;
  const LocalFact* known = local_fact_of(op.walk, x->value);
  if (!is_as_in_global_program(known) && !is_scaled(known)) return mark_unknown(op);
  LocalFact fact = is_scaled(known) ? *known : LocalFact{};
  const auto dim = static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  Code code{};
  std::string wrong;
  for (const size_t axis : axes_at(op, 2)) {
    note_call(op, CollectiveKind::ReduceScatter, axis, layout);
    if (dim >= layout.dims.size() || !add_up(op, layout, axis, fact, code, wrong)) break;
    layout.dims[dim] = sharded_dim(op.walk.memory.table.maps, layout.dims[dim], axis);
  }
  set_result(op, layout, code, wrong);
  if (is_scaled(&fact)) set_fact(op, fact);
}

void run_all_to_all(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  const std::vector<size_t> axes = axes_at(op, 3);
  if (!x || axes.size() > 1) return mark_unknown(op);
  ValueLayout layout = *x->layout;
  const LocalFact* known = local_fact_of(op.walk, x->value);
  if (!is_as_in_global_program(known) && !is_scaled(known)) return mark_unknown(op);
  const size_t ndim = layout.dims.size();
  const auto split = static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  const auto joined = static_cast<size_t>(number_at(op.call, 2, {}, 0).traced);
  if (split >= ndim || joined >= ndim) return mark_unknown(op);
  std::string wrong;
  for (const size_t axis : axes) {
    note_call(op, CollectiveKind::AllToAll, axis, layout);
    bool right = false;
    const DimLayoutId map = layout.dims[joined];
    layout.dims[joined] = gathered_dim(op.walk.memory.table.maps, map, axis, right);
    if (!right || (op.walk.memory.table.maps.maps[layout.dims[split]].axes & axis_bit(axis)) != 0)
      wrong = fmt::format("all_to_all treats dim {} as sharded over its axis, but it is not: {}", joined,
                          dim_layout_text(op.walk.memory.table.maps, map));
    layout.dims[split] = sharded_dim(op.walk.memory.table.maps, layout.dims[split], axis);
  }
  set_result(op, layout, Code::ShardsMismatch, wrong);
  if (is_scaled(known)) set_fact(op, *known);
}

bool run_partial_maximum(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x || !is_as_in_global_program(local_fact_of(op.walk, x->value)) || x->layout->partial != 0) return false;
  const std::vector<bool> along = dims_of_operation(op.call);
  const DimLayout* sharded = nullptr;
  ValueLayout layout;
  AxisMask unreduced = 0, reduced = 0;
  for (size_t dim = 0; dim < along.size(); ++dim) {
    const DimLayout& map = op.walk.memory.table.maps.maps[x->layout->dims[dim]];
    if (!along[dim]) {
      unreduced |= map.axes;
      layout.dims.push_back(x->layout->dims[dim]);
    } else if (!map.is_complete) {
      if (!map.tiles) return false;
      sharded = &map;
      reduced |= map.axes;
    }
  }
  if (sharded == nullptr || (unreduced & reduced) != 0) return false;
  set_result(op, layout);
  set_fact(op, {.by_rank = {},
                .global = {},
                .scaled_by = {},
                .pending_maximum = reduced,
                .is_minimum = op.node.op == OpId::Amin});
  return true;
}

}  // namespace tpplan
