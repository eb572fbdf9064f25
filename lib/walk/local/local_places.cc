#include <algorithm>

#include "walk/local/local_ops.h"
#include "walk/operation/operations.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {

void run_axis_index(LocalOp& op) {
  LocalFact fact{.kind = FactKind::Integers, .by_rank = {}, .global = constant_function(0), .scaled_by = {}};
  const std::vector<size_t> axes = axes_at(op, 0);
  for (size_t rank = 0; rank < op.walk.in.ranks; ++rank) {
    int64_t place = 0;
    for (const size_t axis : axes)
      place = place * static_cast<int64_t>(op.walk.memory.table.maps.axes[axis]) +
              static_cast<int64_t>(coordinate(op.walk.memory.table.maps, rank, axis));
    fact.by_rank.push_back(constant_function(place));
  }
  set_result(op, replicated_layout(op.walk.memory.table, out_shape(op.call)));
  set_fact(op, std::move(fact));
}

void run_iota(LocalOp& op) {
  DimLayoutTable& maps = op.walk.memory.table.maps;
  const std::vector<PerRankNumber> sizes = numbers_at(op.call, 0, {});
  const auto along = static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  const auto shape = out_shape(op.call);
  ValueLayout layout;
  for (size_t dim = 0; dim < shape.size() && dim < sizes.size(); ++dim) {
    if (dim != along) {
      layout.dims.push_back(unknown_dim(maps, shape[dim], sizes[dim].local, sizes[dim].axes));
      continue;
    }
    RankIntervals intervals;
    for (const int64_t size : sizes[dim].local) intervals.push_back({{0, std::clamp<int64_t>(size, 0, shape[dim])}});
    layout.dims.push_back(layout_of_intervals(maps, shape[dim], std::move(intervals)));
  }
  set_result(op, layout);
  set_fact(op, {.by_rank = {}, .global = {}, .counts_along = static_cast<int>(along), .scaled_by = {}});
}

bool differs_by_rank(const LocalOp& op) {
  return std::any_of(op.call.args.begin(), op.call.args.end(), [&](uint32_t at) {
    const GraphArg& arg = op.walk.in.graph.args[at];
    return arg.kind == ArgKind::Size && op.walk.in.graph.sizes[arg.id].op == SizeOp::Local;
  });
}

std::optional<IndexArgument> index_argument(const LocalOp& op, const GraphArg& arg) {
  IndexArgument out;
  if (arg.kind == ArgKind::Value) {
    const LocalFact* fact = local_fact_of(op.walk, arg.id);
    if (fact != nullptr && fact->kind == FactKind::Integers)
      return IndexArgument{fact->base, fact->by_rank, fact->global};
    // The function holds for each element, so a sharded batch has it too.
    const ValueLayout& layout = op.walk.memory.table.layouts[op.walk.memory.layout_of[arg.id]];
    if (!is_as_in_global_program(fact) || layout.partial != 0 || is_float(op.walk, arg.id)) return std::nullopt;
    return IndexArgument{value_with_same_integers(op.walk, arg.id),
                         std::vector<RankFunction>(op.walk.in.ranks, identity_function()), identity_function()};
  }
  if (!is_number(&arg) && arg.kind != ArgKind::Float) return std::nullopt;
  if (arg.kind == ArgKind::Float ||
      (arg.kind == ArgKind::Number && arg.number != static_cast<double>(static_cast<int64_t>(arg.number))))
    return std::nullopt;
  const PerRankNumber number = number_of(op.call, arg);
  const auto is_far = [](int64_t n) { return n < -kFarInteger || n > kFarInteger; };
  if (is_far(number.traced) || std::any_of(number.local.begin(), number.local.end(), is_far)) return std::nullopt;
  for (const int64_t n : number.local) out.by_rank.push_back(constant_function(n));
  out.global = constant_function(number.traced);
  return out;
}

namespace {

// Returns all arguments; nullopt if one is not known, or if they are functions of different integers.
std::optional<std::vector<IndexArgument>> index_arguments(const LocalOp& op, ValueId& base) {
  std::vector<IndexArgument> all;
  base = kNoId;
  for (const uint32_t at : op.call.args) {
    auto argument = index_argument(op, op.walk.in.graph.args[at]);
    if (!argument || (base != kNoId && argument->base != kNoId && argument->base != base)) return std::nullopt;
    if (argument->base != kNoId) base = argument->base;
    all.push_back(std::move(*argument));
  }
  return all;
}

std::optional<RankFunction> apply_function(OpId op, std::span<const RankFunction* const> f) {
  if (f.size() == 1) {
    if (op == OpId::LogicalNot || op == OpId::BitwiseNot)
      return apply_to_functions(OpId::Eq, *f[0], constant_function(0));
    if (op == OpId::Neg) return apply_to_functions(OpId::Sub, constant_function(0), *f[0]);
    if (op == OpId::Bool) return apply_to_functions(OpId::Ne, *f[0], constant_function(0));
    return std::nullopt;
  }
  if (op == OpId::Where && f.size() == 3) return select_function(*f[0], *f[1], *f[2]);
  if (op == OpId::Clamp && f.size() == 3) {
    const auto low = apply_to_functions(OpId::Maximum, *f[0], *f[1]);
    return low ? apply_to_functions(OpId::Minimum, *low, *f[2]) : std::nullopt;
  }
  return f.size() == 2 ? apply_to_functions(op, *f[0], *f[1]) : std::nullopt;
}

}  // namespace

bool run_rank_integers(LocalOp& op) {
  LocalFact fact{.kind = FactKind::Integers, .by_rank = {}, .global = {}, .scaled_by = {}};
  const auto arguments = index_arguments(op, fact.base);
  if (!arguments || arguments->empty()) return false;
  for (size_t rank = 0; rank <= op.walk.in.ranks; ++rank) {
    std::vector<const RankFunction*> f;
    for (const IndexArgument& a : *arguments) f.push_back(rank == op.walk.in.ranks ? &a.global : &a.by_rank[rank]);
    auto made = apply_function(op.node.op, f);
    if (!made) return false;
    if (rank == op.walk.in.ranks)
      fact.global = std::move(*made);
    else
      fact.by_rank.push_back(std::move(*made));
  }
  // The rule reports a number that differs by rank as wrong, but here it is tracked.
  const OpResult by_rule = run_rule(op.call);
  const bool wrong = !by_rule.wrong.empty() && !differs_by_rank(op);
  if (!by_rule.crash.empty() || wrong || by_rule.outs.empty())
    run_by_rule(op.walk, op.node, op.index);
  else
    set_result(op, by_rule.outs[0]);
  set_fact(op, std::move(fact));
  return true;
}

namespace {

// Returns the offset of a function that is one line of this slope; nullopt otherwise.
std::optional<int64_t> shift_of(const RankFunction& function, int64_t slope) {
  if (function.size() != 1 || function[0].slope != slope) return std::nullopt;
  return function[0].offset;
}

// Returns for each rank the difference of its function from that of the global program.
std::optional<std::vector<int64_t>> shifts_of(const LocalOp& op, const LocalFact& table, int64_t slope) {
  std::vector<int64_t> shifts;
  const auto global = shift_of(table.global, slope);
  for (size_t rank = 0; rank < op.walk.in.ranks; ++rank) {
    const auto rank_shift = shift_of(table.by_rank[rank], slope);
    if (!rank_shift || !global) return std::nullopt;
    shifts.push_back(*rank_shift - *global);
  }
  return shifts;
}

// Returns the layout of a dim with all indices shifted on each rank; nullopt if some would be out of range.
std::optional<DimLayoutId> shifted(LocalOp& op, DimLayoutId id, std::span<const int64_t> by) {
  const DimLayout map = op.walk.memory.table.maps.maps[id];
  if (map.kind == DimLayoutKind::Any) return std::nullopt;
  RankIntervals intervals(op.walk.in.ranks);
  for (size_t rank = 0; rank < op.walk.in.ranks; ++rank) {
    for (const Interval& run : rank_intervals(map, rank)) {
      if (run.begin + by[rank] < 0 || run.end + by[rank] > map.size) return std::nullopt;
      intervals[rank].push_back({run.begin + by[rank], run.end + by[rank]});
    }
  }
  return layout_of_intervals(op.walk.memory.table.maps, map.size, std::move(intervals));
}

}  // namespace

bool run_offset_iota(LocalOp& op) {
  const std::vector<ValueId> values = input_values(op.walk, op.node);
  if (values.size() != 2 || op.call.args.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const LocalFact *counts = local_fact_of(op.walk, values[i]), *table = local_fact_of(op.walk, values[1 - i]);
    if (counts == nullptr || counts->counts_along < 0 || table == nullptr || table->kind != FactKind::Integers)
      continue;
    const bool adds = (op.node.op == OpId::Add || (op.node.op == OpId::Sub && i == 0)) && table->base == kNoId;
    const bool compares = op.node.op == OpId::Eq || op.node.op == OpId::Ne;
    if (!adds && !compares) return false;
    auto shifts = shifts_of(op, *table, table->base == kNoId ? 0 : 1);
    if (!shifts) return false;
    if (op.node.op != OpId::Add)
      for (int64_t& n : *shifts) n = -n;
    const LocalFact counted = *counts;
    const ValueId out = result_of(op);
    const size_t ndim = shape_of(op.walk.in.graph, values[i]).size(), out_ndim = shape_of(op.walk.in.graph, out).size();
    if (out_ndim < ndim || static_cast<size_t>(counted.counts_along) >= ndim) return false;
    const size_t missing = out_ndim - ndim, along = static_cast<size_t>(counted.counts_along) + missing;
    const DimLayoutId dim_layout =
        op.walk.memory.table.layouts[op.walk.memory.layout_of[values[i]]].dims[along - missing];
    const auto map = shifted(op, dim_layout, *shifts);
    if (!map) return false;
    run_by_rule(op.walk, op.node, op.index);
    if (op.walk.out.crash != kNoId) return true;
    const SlotId slot = op.walk.memory.slot_of[out];
    ValueLayout layout = layout_of(op.walk, slot);
    if (along >= layout.dims.size()) return true;
    layout.dims[along] = *map;
    op.walk.memory.slots[slot].layout = intern(op.walk.memory.table, layout);
    set_slot(op.walk, out, slot);
    if (adds) set_fact(op, {.by_rank = {}, .global = {}, .counts_along = static_cast<int>(along), .scaled_by = {}});
    return true;
  }
  return false;
}

}  // namespace tpplan
