#include <algorithm>

#include "walk/local_ops.h"
#include "walk/node_args.h"
#include "walk/operations.h"
#include "walk/slots.h"

namespace tpplan {

namespace {

std::vector<ElementRun> element_runs(const DimMap& map, size_t rank) {
  std::vector<ElementRun> runs;
  for (const Interval& run : runs_of(map, rank)) runs.push_back({run.begin, run.end});
  return runs;
}

}  // namespace

bool run_take(LocalOp& op) {
  const bool rows = op.name == "embedding";
  const auto index = tensor_at(op.call, rows ? 0 : 2), x = tensor_at(op.call, rows ? 1 : 0);
  if (!x || !index || x->layout->partial != 0 || !is_plain_fact(fact_of(op.walk, x->value))) return false;
  const size_t dim = rows ? 0 : static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  if (dim >= x->layout->dims.size() || (!rows && x->layout->dims.size() != index->layout->dims.size())) return false;
  const auto argument = index_argument(op, op.walk.graph.args[op.call.args[rows ? 0 : 2]]);
  const DimMap held = op.walk.table.maps.maps[x->layout->dims[dim]];
  if (!argument || held.kind == MapKind::Any || held.size > kFarInteger) return false;
  LocalFact fact{.kind = FactKind::Rows, .base = argument->base, .by_rank = {}, .whole = {}, .scaled_by = {}};
  // Only indices that the whole model finds count, a -1 or what stands for an id that is none is not looked at.
  const auto from = combine("ge", argument->whole, constant_function(0)),
             to = combine("lt", argument->whole, constant_function(held.size));
  const auto found = from && to ? combine("logical_and", *from, *to) : std::nullopt;
  if (!found) return false;
  // Where ids are those of the rows, there are no others.
  const bool are_ids = within(argument->whole, 0, held.size) == within(same_integer(), 0, held.size);
  for (const FunctionPiece& piece : are_ids ? within(*found, 0, held.size) : *found) {
    if (piece.offset == 1) fact.whole.push_back(piece);
  }
  if (fact.whole.empty()) return false;  // of no row nothing can be wrong
  for (size_t rank = 0; rank < op.walk.ranks; ++rank) {
    const auto taken = is_taken(argument->by_rank[rank], argument->whole, element_runs(held, rank));
    const auto seen = taken ? combine("mul", *taken, fact.whole) : std::nullopt;
    if (!seen) return false;
    fact.by_rank.push_back(*seen);
  }
  Spread layout;
  const std::vector<MapId>& by = index->layout->dims;
  if (rows) {
    layout.dims = by;
    layout.dims.insert(layout.dims.end(), x->layout->dims.begin() + 1, x->layout->dims.end());
  } else {
    // Along the other dims index and x go together.
    OpResult joined;
    for (size_t d = 0; d < by.size(); ++d)
      layout.dims.push_back(d == dim ? by[d] : join(op.call, joined, x->layout->dims[d], by[d], false, "a dim"));
    if (!joined.crash.empty() || !joined.wrong.empty()) return false;
  }
  give_result(op, layout);
  set_fact(op, std::move(fact));
  return true;
}

namespace {

// Where over the integers exactly one rank of the axes has what the whole model has, and the others zeros, what they
// have together is its sum. The fewest axes that do.
AxisMask summed_over(const LocalOp& op, const LocalFact& rows) {
  const MapTable& maps = op.walk.table.maps;
  const auto is_sum = [&](AxisMask axes) {
    for (size_t rank = 0; rank < op.walk.ranks; ++rank) {
      bool first = true;
      for (size_t axis = 0; axis < maps.axes.size(); ++axis)
        first = first && ((axes >> axis & 1) == 0 || coordinate(maps, rank, axis) == 0);
      if (!first) continue;
      RankFunction sum = constant_function(0);
      for (size_t other = 0; other < op.walk.ranks; ++other) {
        bool beside = true;
        for (size_t axis = 0; axis < maps.axes.size(); ++axis)
          beside = beside && ((axes >> axis & 1) != 0 || coordinate(maps, rank, axis) == coordinate(maps, other, axis));
        if (!beside) continue;
        // What is something else counts as no sum at all.
        const auto strange = combine("eq", rows.by_rank[other], constant_function(2));
        if (!strange ||
            std::any_of(strange->begin(), strange->end(), [](const FunctionPiece& p) { return p.offset != 0; }))
          return false;
        const auto added = combine("add", sum, rows.by_rank[other]);
        if (!added) return false;
        sum = *added;
      }
      const auto differs = combine("ne", sum, rows.whole);
      if (!differs ||
          std::any_of(differs->begin(), differs->end(), [](const FunctionPiece& p) { return p.offset != 0; }))
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

// What a mask is about: rows of which a rank has some, or a value that all have; which of the operands is zero
// elsewhere.
struct Masked {
  const LocalFact* condition = nullptr;
  LocalFact held;
  bool where_true = true;  // it is taken where the condition holds
};

bool is_zero_argument(const LocalOp& op, uint32_t at) {
  const GraphArg& arg = op.walk.graph.args[at];
  if (arg.kind == ArgKind::Value) return op.walk.table.layouts[op.walk.layout_of[arg.id]].zero;
  return is_number(&arg) && arg.kind != ArgKind::Size && arg.number == 0 && arg.integer == 0;
}

std::optional<Masked> masked_of(const LocalOp& op) {
  const size_t count = op.call.args.size();
  if (op.name != (count == 3 ? "where" : "mul") || count < 2) return std::nullopt;
  Masked masked;
  uint32_t other = 0;
  for (size_t i = 0; i < count; ++i) {
    const GraphArg& arg = op.walk.graph.args[op.call.args[i]];
    const LocalFact* fact = arg.kind == ArgKind::Value ? fact_of(op.walk, arg.id) : nullptr;
    const bool is_condition = fact != nullptr && fact->kind == FactKind::Table && (count == 2 || i == 0);
    if (is_condition && masked.condition == nullptr) {
      masked.condition = fact;
    } else if (count == 2 || !is_zero_argument(op, op.call.args[i])) {
      if (arg.kind != ArgKind::Value || other != 0) return std::nullopt;
      other = op.call.args[i];
      masked.where_true = count == 2 || i == 1;
    }
  }
  if (masked.condition == nullptr || other == 0) return std::nullopt;
  const ValueId value = op.walk.graph.args[other].id;
  const LocalFact* fact = fact_of(op.walk, value);
  if (fact != nullptr && fact->kind == FactKind::Rows) {
    masked.held = *fact;
  } else {
    if (!is_plain_fact(fact) || op.walk.table.layouts[op.walk.layout_of[value]].partial != 0) return std::nullopt;
    masked.held.by_rank.assign(op.walk.ranks, constant_function(1));
    masked.held.whole = constant_function(1);
    masked.held.base = masked.condition->base;
  }
  if (masked.condition->base != kNoId && masked.condition->base != masked.held.base) return std::nullopt;
  return masked;
}

}  // namespace

bool run_mask(LocalOp& op) {
  const auto masked = masked_of(op);
  if (!masked) return false;
  LocalFact fact{.kind = FactKind::Rows, .base = masked->held.base, .by_rank = {}, .whole = {}, .scaled_by = {}};
  for (size_t rank = 0; rank <= op.walk.ranks; ++rank) {
    const bool last = rank == op.walk.ranks;
    const RankFunction& where = last ? masked->condition->whole : masked->condition->by_rank[rank];
    const RankFunction& held = last ? masked->held.whole : masked->held.by_rank[rank];
    // A factor must be 0 or 1.
    const auto other = combine("ne", where, constant_function(1)), nonzero = combine("ne", where, constant_function(0));
    const auto odd = other && nonzero ? combine("logical_and", *other, *nonzero) : std::nullopt;
    if (!odd || constant_of(*odd) != 0) return false;
    const auto truth = combine(masked->where_true ? "ne" : "eq", where, constant_function(0));
    const auto taken = truth ? combine("mul", *truth, held) : std::nullopt;
    if (!taken) return false;
    if (last)
      fact.whole = *taken;
    else
      fact.by_rank.push_back(*taken);
  }
  run_by_rule(op.walk, op.node, op.index);
  if (op.walk.crash != kNoId) return true;
  const AxisMask axes = summed_over(op, fact);
  if (axes == 0) return set_fact(op, std::move(fact)), true;
  const ValueId out = result_of(op);
  const SlotId slot = op.walk.slot_of[out];
  Spread layout = layout_of(op.walk, slot);
  layout.partial |= axes;
  layout.zero = false;
  op.walk.slots[slot].layout = intern(op.walk.table, layout);
  set_slot(op.walk, out, slot);
  return true;
}

bool run_dynamic_slice(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  uint32_t at = 0;
  const GraphArg* starts = find_arg(op.call, 1, {}, &at);
  const std::vector<RankNumber> sizes = numbers_at(op.call, 2, {});
  if (!x || starts == nullptr || !is_plain_fact(fact_of(op.walk, x->value))) return false;
  MapTable& maps = op.walk.table.maps;
  Spread layout = *x->layout;
  if (out_shape(op.call).size() != layout.dims.size()) return false;
  size_t dim = 0;
  for (uint32_t i = at + 1; i < starts->end && dim < layout.dims.size(); i = op.walk.graph.args[i].end, ++dim) {
    const auto start = index_argument(op, op.walk.graph.args[i]);
    const DimMap held = maps.maps[layout.dims[dim]];
    if (!start || start->base != kNoId || held.kind == MapKind::Any || dim >= sizes.size()) return false;
    RankRuns runs(op.walk.ranks);
    const int64_t whole_size = out_shape(op.call)[dim];
    if (whole_size > held.size) return false;
    const int64_t whole_start = std::clamp<int64_t>(constant_of(start->whole).value_or(0), 0, held.size - whole_size);
    for (size_t rank = 0; rank < op.walk.ranks; ++rank) {
      const int64_t size = sizes[dim].local[rank];
      const auto own = constant_of(start->by_rank[rank]);
      if (!own || size < 0 || size > held.local[rank]) return false;
      const int64_t begin = std::clamp<int64_t>(*own, 0, held.local[rank] - size), end = begin + size;
      int64_t first = 0;
      for (const Interval& run : runs_of(held, rank)) {
        const int64_t from = std::max(begin, first), to = std::min(end, first + length(run));
        const int64_t element = run.begin + from - first - whole_start;
        if (from < to && (element < 0 || element + to - from > whole_size)) return false;
        if (from < to) append_run(runs[rank], {element, element + to - from});
        first += length(run);
      }
    }
    layout.dims[dim] = runs_map(maps, whole_size, std::move(runs));
  }
  give_result(op, layout);
  return true;
}

}  // namespace tpplan
