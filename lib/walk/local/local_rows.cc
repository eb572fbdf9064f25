// Rows that ranks read by index, and masks over them: how programs write a vocabulary-parallel embedding or loss by
// hand. Each rank subtracts its offset from the ids, reads rows, and zeroes those that it does not own. The sum over
// the ranks is the global value if, for every id, exactly one rank has the row of the global program and the others
// zeros.
//
// A Rows fact (walk/state/local_facts.h) states this as functions of the id: `by_rank` is 0, 1 or 2 for zeros, the
// right row or another one, and `global` is 1 for the ids whose row the global program keeps. run_lookup creates the
// fact, run_mask multiplies it by a condition, and summed_over asks which axes a sum over the ranks would make whole.
#include <algorithm>

#include "walk/local/local_ops.h"
#include "walk/operation/operations.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {

namespace {

std::vector<ElementRange> element_ranges(const DimLayout& map, size_t rank) {
  std::vector<ElementRange> intervals;
  for (const Interval& run : rank_intervals(map, rank)) intervals.push_back({run.begin, run.end});
  return intervals;
}

}  // namespace

bool run_lookup(LocalOp& op) {
  const bool rows = op.node.op == OpId::Embedding;
  const auto index = tensor_at(op.call, rows ? 0 : 2), x = tensor_at(op.call, rows ? 1 : 0);
  if (!x || !index || x->layout->partial != 0 || !is_as_in_global_program(local_fact_of(op.walk, x->value)))
    return false;
  const size_t dim = rows ? 0 : static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  if (dim >= x->layout->dims.size() || (!rows && x->layout->dims.size() != index->layout->dims.size())) return false;
  const auto argument = index_argument(op, op.walk.in.graph.args[op.call.args[rows ? 0 : 2]]);
  const DimLayout held = op.walk.memory.table.maps.maps[x->layout->dims[dim]];
  if (!argument || held.kind == DimLayoutKind::Any || held.size > kFarInteger) return false;
  LocalFact fact{.kind = FactKind::Rows, .base = argument->base, .by_rank = {}, .global = {}, .scaled_by = {}};
  // Only indices that exist in the global program matter. A -1 or another padding id is ignored.
  const auto from = apply_to_functions(OpId::Ge, argument->global, constant_function(0)),
             to = apply_to_functions(OpId::Lt, argument->global, constant_function(held.size));
  const auto found = from && to ? apply_to_functions(OpId::LogicalAnd, *from, *to) : std::nullopt;
  if (!found) return false;
  // If the index is the integer itself, other integers do not occur.
  const bool are_ids =
      restrict_function(argument->global, 0, held.size) == restrict_function(identity_function(), 0, held.size);
  for (const LinearInterval& interval : are_ids ? restrict_function(*found, 0, held.size) : *found) {
    if (interval.offset == 1) fact.global.push_back(interval);
  }
  if (fact.global.empty()) return false;  // an empty selection cannot be wrong
  for (size_t rank = 0; rank < op.walk.in.ranks; ++rank) {
    const auto taken = compare_element(argument->by_rank[rank], argument->global, element_ranges(held, rank));
    const auto seen = taken ? apply_to_functions(OpId::Mul, *taken, fact.global) : std::nullopt;
    if (!seen) return false;
    fact.by_rank.push_back(*seen);
  }
  ValueLayout layout;
  const std::vector<DimLayoutId>& by = index->layout->dims;
  if (rows) {
    layout.dims = by;
    layout.dims.insert(layout.dims.end(), x->layout->dims.begin() + 1, x->layout->dims.end());
  } else {
    // Along the other dims, index and x have the same elements.
    OpResult joined;
    for (size_t d = 0; d < by.size(); ++d)
      layout.dims.push_back(d == dim ? by[d] : join(op.call, joined, x->layout->dims[d], by[d], false, "a dim"));
    if (!joined.crash.empty() || !joined.wrong.empty()) return false;
  }
  set_result(op, layout);
  set_fact(op, std::move(fact));
  return true;
}

namespace {

// Returns the smallest set of axes over which the value is a partial sum; 0 if there is none. Sums `by_rank` over the
// ranks that differ only along the axes, once for each such group. The sum must equal `global`: with values 0 and 1
// only, a sum of 1 means that exactly one rank has the right row, and a sum of 0 that all have zeros.
AxisMask summed_over(const LocalOp& op, const LocalFact& rows) {
  const DimLayoutTable& maps = op.walk.memory.table.maps;
  const auto is_sum = [&](AxisMask axes) {
    for (size_t rank = 0; rank < op.walk.in.ranks; ++rank) {
      bool first = true;
      for (size_t axis = 0; axis < maps.axes.size(); ++axis)
        first = first && ((axes >> axis & 1) == 0 || coordinate(maps, rank, axis) == 0);
      if (!first) continue;
      RankFunction sum = constant_function(0);
      for (size_t other = 0; other < op.walk.in.ranks; ++other) {
        bool is_peer = true;
        for (size_t axis = 0; axis < maps.axes.size(); ++axis)
          is_peer =
              is_peer && ((axes >> axis & 1) != 0 || coordinate(maps, rank, axis) == coordinate(maps, other, axis));
        if (!is_peer) continue;
        // With other elements the value is no partial sum.
        const auto strange = apply_to_functions(OpId::Eq, rows.by_rank[other], constant_function(2));
        if (!strange ||
            std::any_of(strange->begin(), strange->end(), [](const LinearInterval& p) { return p.offset != 0; }))
          return false;
        const auto added = apply_to_functions(OpId::Add, sum, rows.by_rank[other]);
        if (!added) return false;
        sum = *added;
      }
      const auto differs = apply_to_functions(OpId::Ne, sum, rows.global);
      if (!differs ||
          std::any_of(differs->begin(), differs->end(), [](const LinearInterval& p) { return p.offset != 0; }))
        return false;
    }
    return true;
  };
  if (maps.axes.size() > 8) return 0;
  AxisMask best = 0;
  for (AxisMask axes = 1; axes < AxisMask{1} << maps.axes.size(); ++axes) {
    if ((best == 0 || __builtin_popcount(axes) < __builtin_popcount(best)) && is_sum(axes)) best = axes;
  }
  return best;
}

// The operands of a mask: the condition, and rows of which each rank has some, or a value that all ranks have.
struct Masked {
  const LocalFact* condition = nullptr;
  LocalFact held;
  bool selects_true = true;  // the operand is selected where the condition is true; zeros elsewhere
};

bool is_zero_argument(const LocalOp& op, uint32_t at) {
  const GraphArg& arg = op.walk.in.graph.args[at];
  if (arg.kind == ArgKind::Value) return op.walk.memory.table.layouts[op.walk.memory.layout_of[arg.id]].zero;
  return is_number(&arg) && arg.kind != ArgKind::Size && arg.number == 0 && arg.integer == 0;
}

std::optional<Masked> masked_of(const LocalOp& op) {
  const size_t count = op.call.args.size();
  if (op.node.op != (count == 3 ? OpId::Where : OpId::Mul) || count < 2) return std::nullopt;
  Masked masked;
  uint32_t other = 0;
  for (size_t i = 0; i < count; ++i) {
    const GraphArg& arg = op.walk.in.graph.args[op.call.args[i]];
    const LocalFact* fact = arg.kind == ArgKind::Value ? local_fact_of(op.walk, arg.id) : nullptr;
    const bool is_condition = fact != nullptr && fact->kind == FactKind::Integers && (count == 2 || i == 0);
    if (is_condition && masked.condition == nullptr) {
      masked.condition = fact;
    } else if (count == 2 || !is_zero_argument(op, op.call.args[i])) {
      if (arg.kind != ArgKind::Value || other != 0) return std::nullopt;
      other = op.call.args[i];
      masked.selects_true = count == 2 || i == 1;
    }
  }
  if (masked.condition == nullptr || other == 0) return std::nullopt;
  const ValueId value = op.walk.in.graph.args[other].id;
  const LocalFact* fact = local_fact_of(op.walk, value);
  if (fact != nullptr && fact->kind == FactKind::Rows) {
    masked.held = *fact;
  } else {
    if (!is_as_in_global_program(fact) || op.walk.memory.table.layouts[op.walk.memory.layout_of[value]].partial != 0)
      return std::nullopt;
    masked.held.by_rank.assign(op.walk.in.ranks, constant_function(1));
    masked.held.global = constant_function(1);
    masked.held.base = masked.condition->base;
  }
  if (masked.condition->base != kNoId && masked.condition->base != masked.held.base) return std::nullopt;
  return masked;
}

}  // namespace

// The functions of the result are products: rank r keeps what it held where its condition selects the operand. The last
// round of the loop computes `global` the same way from the global condition.
bool run_mask(LocalOp& op) {
  const auto masked = masked_of(op);
  if (!masked) return false;
  LocalFact fact{.kind = FactKind::Rows, .base = masked->held.base, .by_rank = {}, .global = {}, .scaled_by = {}};
  for (size_t rank = 0; rank <= op.walk.in.ranks; ++rank) {
    const bool last = rank == op.walk.in.ranks;
    const RankFunction& condition_values = last ? masked->condition->global : masked->condition->by_rank[rank];
    const RankFunction& held = last ? masked->held.global : masked->held.by_rank[rank];
    // A factor must be 0 or 1.
    const auto other = apply_to_functions(OpId::Ne, condition_values, constant_function(1)),
               nonzero = apply_to_functions(OpId::Ne, condition_values, constant_function(0));
    const auto odd = other && nonzero ? apply_to_functions(OpId::LogicalAnd, *other, *nonzero) : std::nullopt;
    if (!odd || constant_of(*odd) != 0) return false;
    const auto truth =
        apply_to_functions(masked->selects_true ? OpId::Ne : OpId::Eq, condition_values, constant_function(0));
    const auto taken = truth ? apply_to_functions(OpId::Mul, *truth, held) : std::nullopt;
    if (!taken) return false;
    if (last)
      fact.global = *taken;
    else
      fact.by_rank.push_back(*taken);
  }
  run_by_rule(op.walk, op.node, op.index);
  if (op.walk.out.crash != kNoId) return true;
  const AxisMask axes = summed_over(op, fact);
  if (axes == 0) return set_fact(op, std::move(fact)), true;
  const ValueId out = result_of(op);
  const SlotId slot = op.walk.memory.slot_of[out];
  ValueLayout layout = layout_of(op.walk, slot);
  layout.partial |= axes;
  layout.zero = false;
  op.walk.memory.slots[slot].layout = intern(op.walk.memory.table, layout);
  set_slot(op.walk, out, slot);
  return true;
}

// A rank slices its own shard at its own start. The result is a layout whose interval of rank r are the global elements
// in [begin, end) of its shard, counted from where the global program's slice starts. Starts are clamped to the shard,
// as XLA clamps them. The operation is not understood if a rank would have an element that the global slice has not.
bool run_dynamic_slice(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  uint32_t at = 0;
  const GraphArg* starts = find_arg(op.call, 1, {}, &at);
  const std::vector<PerRankNumber> sizes = numbers_at(op.call, 2, {});
  if (!x || starts == nullptr || !is_as_in_global_program(local_fact_of(op.walk, x->value))) return false;
  DimLayoutTable& maps = op.walk.memory.table.maps;
  ValueLayout layout = *x->layout;
  if (out_shape(op.call).size() != layout.dims.size()) return false;
  size_t dim = 0;
  for (uint32_t i = at + 1; i < starts->end && dim < layout.dims.size(); i = op.walk.in.graph.args[i].end, ++dim) {
    const auto start = index_argument(op, op.walk.in.graph.args[i]);
    const DimLayout held = maps.maps[layout.dims[dim]];
    if (!start || start->base != kNoId || held.kind == DimLayoutKind::Any || dim >= sizes.size()) return false;
    RankIntervals intervals(op.walk.in.ranks);
    const int64_t global_size = out_shape(op.call)[dim];
    if (global_size > held.size) return false;
    const int64_t global_start =
        std::clamp<int64_t>(constant_of(start->global).value_or(0), 0, held.size - global_size);
    for (size_t rank = 0; rank < op.walk.in.ranks; ++rank) {
      const int64_t size = sizes[dim].local[rank];
      const auto rank_start = constant_of(start->by_rank[rank]);
      if (!rank_start || size < 0 || size > held.local[rank]) return false;
      const int64_t begin = std::clamp<int64_t>(*rank_start, 0, held.local[rank] - size), end = begin + size;
      int64_t first = 0;
      for (const Interval& run : rank_intervals(held, rank)) {
        const int64_t from = std::max(begin, first), to = std::min(end, first + length(run));
        const int64_t element = run.begin + from - first - global_start;
        if (from < to && (element < 0 || element + to - from > global_size)) return false;
        if (from < to) append_interval(intervals[rank], {element, element + to - from});
        first += length(run);
      }
    }
    layout.dims[dim] = layout_of_intervals(maps, global_size, std::move(intervals));
  }
  set_result(op, layout);
  return true;
}

}  // namespace tpplan
