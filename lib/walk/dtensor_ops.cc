// Operations on DTensors: torch decides by what the operands claim to be, brings them to layouts that fit (with
// collectives that no plan names), and computes on what the ranks really hold.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "walk/walk_state.h"

namespace tpplan {
namespace {

struct DtensorRun {
  Walk& walk;
  const GraphNode& node;
  std::vector<ValueId> values;  // operands
  std::vector<SlotId> slots;    // as the operation sees them
};

void bring(DtensorRun& run, size_t operand, std::span<const Placement> to) {
  if (layout_of(run.walk, run.slots[operand]).is_dtensor)
    run.slots[operand] = redistribute_slot(run.walk, run.slots[operand], to, false);
}

// What the operand claims; a plain one among DTensors has one element, and is whole.
Claim claim_of(const DtensorRun& run, size_t operand) {
  const Spread& layout = layout_of(run.walk, run.slots[operand]);
  return layout.is_dtensor ? layout.claim : whole_claim(run.walk);
}

// Lets the rules see these operands instead of what stands at their ids, and puts everything back.
template <typename F>
void with_layouts(DtensorRun& run, F layout_for, const std::function<void()>& body) {
  std::vector<SpreadId> before;
  for (size_t i = 0; i < run.values.size(); ++i) {
    before.push_back(run.walk.layout_of[run.values[i]]);
  }
  for (size_t i = 0; i < run.values.size(); ++i) run.walk.layout_of[run.values[i]] = layout_for(i);
  body();
  for (size_t i = 0; i < run.values.size(); ++i) run.walk.layout_of[run.values[i]] = before[i];
}

SpreadId claimed_layout(DtensorRun& run, size_t operand) {
  const Spread layout = layout_of(run.walk, run.slots[operand]);
  if (!layout.is_dtensor)
    return intern(run.walk.table, whole_layout(run.walk.table, shape_of(run.walk.graph, run.values[operand])));
  return intern(run.walk.table,
                placed_layout(run.walk.table, shape_of(run.walk.graph, run.values[operand]), layout.claim));
}

SpreadId true_layout(DtensorRun& run, size_t operand) {
  Spread layout = layout_of(run.walk, run.slots[operand]);
  layout.is_dtensor = false;
  layout.claim = {};
  layout.claimed_shape.clear();
  return intern(run.walk.table, layout);
}

// The placements that a layout stands for; false where none do.
bool claim_for(const Walk& walk, const Spread& layout, Claim& claim) {
  claim = whole_claim(walk);
  for (size_t axis = 0; axis < claim.size(); ++axis) {
    size_t cut = 0;
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
      const DimMap& map = walk.table.maps.maps[layout.dims[dim]];
      if (map.kind == MapKind::Cut && map.axes == 0) return false;
      if ((map.axes & axis_bit(axis)) == 0) continue;
      claim[axis] = shard_of(dim);
      ++cut;
    }
    const bool open = (layout.partial & axis_bit(axis)) != 0;
    if (open) claim[axis].kind = PlacementKind::Partial;
    if (cut > 1 || (cut == 1 && open)) return false;
  }
  return true;
}

// True when what the ranks hold is what the DTensor claims.
bool is_as_claimed(DtensorRun& run, size_t operand) {
  const Spread& layout = layout_of(run.walk, run.slots[operand]);
  const auto shape = shape_of(run.walk.graph, run.values[operand]);
  if (!layout.is_dtensor ||
      !std::equal(shape.begin(), shape.end(), layout.claimed_shape.begin(), layout.claimed_shape.end()))
    return false;
  const Spread held = layout, claimed = placed_layout(run.walk.table, shape, layout.claim);
  return held.dims == claimed.dims && (held.partial == claimed.partial || held.zero);
}

bool is_view(std::string_view name) {
  return name == "view" || name == "reshape" || name == "flatten" || name == "unflatten" || name == "view_as" ||
         name == "reshape_as";
}

// Where a cut goes under a view (torch 2.13, _ops/_view_ops.py, which lets no view communicate): to the first dim that
// its dim becomes, if the ranks divide that; behind other dims that it is merged with, to a strided shard.
std::optional<Placement> viewed_axis(const Placement& claim, std::span<const int64_t> from, std::span<const int64_t> to,
                                     int64_t ranks) {
  if (!is_shard(claim)) return claim;
  const auto cut = static_cast<size_t>(claim.dim);
  for (size_t i = 0, o = 0; i < from.size() && o < to.size();) {
    // One group: dims whose products agree.
    const size_t first_in = i, first_out = o;
    int64_t a = from[i++], b = to[o++];
    while (a != b) {
      if (a < b && i < from.size())
        a *= from[i++];
      else if (b < a && o < to.size())
        b *= to[o++];
      else
        return std::nullopt;
    }
    if (cut < first_in || cut >= i) continue;
    int64_t before = claim.kind == PlacementKind::StridedShard ? claim.split_factor : 1;
    for (size_t dim = first_in; dim < cut; ++dim) before *= from[dim];
    // Over what stands before the cut dim comes the dim that takes the cut.
    size_t out = first_out;
    int64_t passed = 1;
    while (out + 1 < o && (passed * to[out] <= before && before % (passed * to[out]) == 0 && passed < before))
      passed *= to[out++];
    while (out + 1 < o && to[out] == 1) ++out;
    if (before % passed != 0) return std::nullopt;
    const int64_t factor = before / passed;
    const bool splits = o - first_out > 1 && out + 1 < o;
    if (splits && to[out] / factor % ranks != 0) return std::nullopt;
    return Placement{.kind = factor > 1 ? PlacementKind::StridedShard : PlacementKind::Shard,
                     .dim = static_cast<int>(out),
                     .split_factor = factor};
  }
  return std::nullopt;
}

std::optional<Claim> viewed(const Walk& walk, const Claim& claim, std::span<const int64_t> from,
                            std::span<const int64_t> to) {
  Claim out;
  for (size_t axis = 0; axis < claim.size(); ++axis) {
    const auto one = viewed_axis(claim[axis], from, to, static_cast<int64_t>(walk.table.maps.axes[axis]));
    if (!one) return std::nullopt;
    out.push_back(*one);
  }
  return out;
}

}  // namespace

void run_on_dtensors(Walk& walk, const GraphNode& node, uint32_t index) {
  DtensorRun run{.walk = walk, .node = node, .values = values_in(walk, node), .slots = {}};
  std::string_view name = walk.graph.strings[node.name];
  if (!name.starts_with("__") && name.ends_with('_')) name.remove_suffix(1);
  RuleId dtensor_rule = kNoRule;
  bool mixed = false;
  for (const ValueId value : run.values) {
    const SlotId slot = walk.slot_of[value];
    run.slots.push_back(slot);
    const Spread& layout = layout_of(walk, slot);
    if (layout.is_dtensor) {
      if (dtensor_rule == kNoRule) dtensor_rule = walk.slots[slot].origin;
      continue;
    }
    int64_t count = 1;
    for (size_t dim = 0; dim < layout.dims.size(); ++dim) count *= local_size(walk.table, layout, dim, 0);
    mixed = mixed || count != 1;
  }
  const bool reads_size_only = name == "to" || name == "zeros_like" || name == "ones_like" || name == "empty_like" ||
                               name == "full_like" || name.starts_with("new_");
  if (mixed && !(reads_size_only && run.values.size() == 1)) {
    crash_at(walk, Code::TP5104, fmt::format("{} gets a tensor and a DTensor", name), dtensor_rule, kNoRule,
             std::string(name));
    return;
  }
  MemoEntry entry;
  Claim claim = whole_claim(walk);
  OpResult result;
  // Sizes that the code asked a DTensor for are those that it claims; rules want those that ranks hold.
  const std::vector<uint32_t> held_sizes = local_size_numbers(walk, node);
  const auto run_true = [&] {
    with_layouts(
        run, [&](size_t i) { return true_layout(run, i); },
        [&] {
          OpCall call = call_of(walk, node);
          call.size_numbers = held_sizes;
          result = run_rule(call);
        });
  };
  Linearity linearity{};
  if (name == "linear" && run.slots.size() >= 2) {
    const size_t last = layout_of(walk, run.slots[0]).dims.size() - 1;
    if (is_strided(claim_of(run, 1))) bring(run, 1, whole_claim(walk));
    // Axis by axis.
    Claim x = claim_of(run, 0), w = claim_of(run, 1), bias = whole_claim(walk);
    bool bias_once = false;
    for (size_t axis = 0; axis < claim.size(); ++axis) {
      if (is_shard(w[axis]) && w[axis].dim == 0) {
        x[axis] = {};
        claim[axis] = shard_of(last);
      } else if (is_shard(w[axis]) || (is_shard(x[axis]) && x[axis].dim == static_cast<int>(last))) {
        x[axis] = shard_of(last);
        w[axis] = shard_of(1);
        claim[axis].kind = PlacementKind::Partial;
      } else {
        if (x[axis].kind == PlacementKind::Partial) x[axis] = {};
        claim[axis] = x[axis];
      }
      bias_once = bias_once || claim[axis].kind == PlacementKind::Partial;
      if (is_shard(claim[axis]) && claim[axis].dim == static_cast<int>(last)) bias[axis] = shard_of(0);
    }
    bring(run, 0, x);
    bring(run, 1, w);
    const bool adds_bias = run.slots.size() > 2;
    bias_once = bias_once && adds_bias;
    if (adds_bias) bring(run, 2, bias);
    if (walk.crash != kNoId) return;
    if (bias_once) {
      // Added to one term of the open sum: it counts as nothing while the sum is judged.
      const Spread added = layout_of(walk, run.slots[2]);
      with_layouts(
          run,
          [&](size_t i) {
            if (i != 2) return true_layout(run, i);
            Spread none = added;  // of the sizes that the bias has
            none.partial = 0;
            none.is_dtensor = none.local_view = none.wrong = false;
            none.claim.clear();
            none.claimed_shape.clear();
            none.zero = true;
            return intern(walk.table, none);
          },
          [&] {
            OpCall call = call_of(walk, node);
            result = run_rule(call);
          });
      if ((cut_axes(walk.table, added) & open_axes(claim)) != 0 && result.crash.empty())
        crash(result, Code::TP5102, "a piece of the bias is added to the whole result");
    } else {
      run_true();
    }
  } else if (name == "embedding" && run.slots.size() >= 2) {
    if (is_strided(claim_of(run, 1))) bring(run, 1, whole_claim(walk));
    const Claim w = claim_of(run, 1);
    // torch 2.13, _embedding_ops.py: one mask for all axes (MaskBuffer has been materialized with conflicting data).
    if (std::count_if(w.begin(), w.end(), [](const Placement& p) { return is_shard(p) && p.dim == 0; }) > 1) {
      crash_at(walk, Code::TP5105, "torch looks nothing up in a table whose rows are cut over two axes", dtensor_rule,
               kNoRule, std::string(name));
      return;
    }
    Claim looked_up = claim_of(run, 0);
    for (size_t axis = 0; axis < claim.size(); ++axis) {
      if (w[axis].kind != PlacementKind::Replicate) looked_up[axis] = {};
    }
    bring(run, 0, looked_up);
    const Spread weight = layout_of(walk, run.slots[1]), ids = layout_of(walk, run.slots[0]);
    Spread out;
    out.dims = ids.dims;
    out.dims.push_back(weight.dims[1]);
    if (ids.partial != 0) make_wrong(result, Code::TP5108, "indices are a sum that is still open");
    for (size_t axis = 0; axis < claim.size(); ++axis) {
      const AxisMask bit = axis_bit(axis);
      if (is_shard(w[axis]) && w[axis].dim == 0) {
        claim[axis].kind = PlacementKind::Partial;
        out.partial |= cut_axes(walk.table, weight) & bit;
        if ((cut_axes(walk.table, ids) & bit) != 0)
          make_wrong(result, Code::TP5107, "a cut table is looked up by cut indices");
      } else {
        claim[axis] = is_shard(w[axis]) ? shard_of(ids.dims.size()) : claim_of(run, 0)[axis];
      }
    }
    give(result, std::move(out));
  } else if (find_pointwise(name, linearity)) {
    // Axis by axis: the first that is cut decides; open sums are closed first.
    size_t ndim = 0;
    for (const SlotId slot : run.slots) ndim = std::max(ndim, layout_of(walk, slot).dims.size());
    const auto missing = [&](size_t i) { return static_cast<int>(ndim - layout_of(walk, run.slots[i]).dims.size()); };
    Claim chosen = whole_claim(walk);
    for (size_t i = 0; i < run.slots.size(); ++i) {
      bring(run, i, for_gradient(claim_of(run, i)));
      const Claim c = claim_of(run, i);
      for (size_t axis = 0; axis < c.size(); ++axis) {
        if (is_shard(chosen[axis]) || !is_shard(c[axis])) continue;
        chosen[axis] = c[axis];
        chosen[axis].dim += missing(i);
      }
    }
    const bool any_cut = std::any_of(chosen.begin(), chosen.end(), is_shard);
    for (size_t i = 0; i < run.slots.size() && any_cut; ++i) {
      Claim own = chosen;
      for (Placement& placement : own) {
        if (!is_shard(placement)) continue;
        placement.dim -= missing(i);
        const bool broadcasts =
            placement.dim < 0 || shape_of(walk.graph, run.values[i])[static_cast<size_t>(placement.dim)] == 1;
        if (broadcasts) placement = {};
      }
      bring(run, i, own);
    }
    claim = chosen;
    if (walk.crash != kNoId) return;
    run_true();
  } else {
    // Where the rule of the op has an answer for what the operands claim, that is the result's claim; else all are
    // gathered first.
    bool cut = false, as_claimed = true;
    for (size_t i = 0; i < run.slots.size(); ++i) {
      cut = cut || !is_whole(claim_of(run, i));
      as_claimed = as_claimed && is_as_claimed(run, i);
    }
    if (cut && is_view(name) && as_claimed) {
      const auto to = shape_of(walk.graph, walk.graph.outs[node.out_begin]);
      const auto found = viewed(walk, claim_of(run, 0), shape_of(walk.graph, run.values[0]), to);
      if (!found) {
        crash_at(walk, Code::TP5103,
                 fmt::format("{} of a DTensor that is {} would move what ranks hold", name,
                             to_text(std::span<const Placement>(claim_of(run, 0)))),
                 dtensor_rule, kNoRule, std::string(name));
        return;
      }
      claim = *found;
      give(result, placed_layout(walk.table, to, claim));
    } else {
      bool follows = !cut;
      if (cut) {
        OpResult claimed;
        with_layouts(
            run, [&](size_t i) { return claimed_layout(run, i); },
            [&] {
              OpCall call = call_of(walk, node);
              call.size_numbers = held_sizes;
              claimed = run_rule(call);
            });
        follows = claimed.crash.empty() && claimed.wrong.empty() && !claimed.unknown && !claimed.outs.empty() &&
                  claim_for(walk, claimed.outs[0], claim);
      }
      if (!follows) {
        claim = whole_claim(walk);
        for (size_t i = 0; i < run.slots.size(); ++i) bring(run, i, claim);
      }
      if (walk.crash != kNoId) return;
      run_true();
    }
  }
  if (walk.crash != kNoId) return;
  for (Spread& out : result.outs) {
    out.wrong = false;
    out.local_view = false;
    out.is_dtensor = false;
    out.claim.clear();
    out.claimed_shape.clear();
  }
  // Whole values under an op without a rule stay whole.
  bool whole = true;
  for (const SlotId slot : run.slots)
    whole = whole && layout_of(walk, slot).partial == 0 && is_all_whole(walk.table, layout_of(walk, slot));
  if (whole && result.unknown) result.unknown = false;
  for (size_t i = 0; i < result.outs.size(); ++i) {
    Spread& out = result.outs[i];
    out.is_dtensor = true;
    out.claim = normalised(claim, out.dims.size());
    out.claimed_shape = local_shape(walk.table, out, 0);
    for (size_t axis = 0; axis < out.claim.size(); ++axis) {
      if (!is_shard(out.claim[axis]) || static_cast<size_t>(out.claim[axis].dim) >= out.dims.size()) continue;
      // As many as the ranks along the axes that cut the dim hold.
      const auto dim = static_cast<size_t>(out.claim[axis].dim);
      int64_t sum = 0;
      for (size_t rank = 0; rank < walk.ranks; ++rank) {
        bool counts = true;
        for (size_t other = 0; other < out.claim.size(); ++other) {
          const bool cuts = is_shard(out.claim[other]) && out.claim[other].dim == out.claim[axis].dim;
          counts = counts && (cuts || coordinate(walk.table.maps, rank, other) == 0);
        }
        sum += counts ? local_size(walk.table, out, dim, rank) : 0;
      }
      out.claimed_shape[dim] = sum;
    }
    entry.outs.push_back(intern(walk.table, out));
  }
  entry.segments = result.segments;
  entry.segments_are_arguments = result.segments_are_arguments;
  entry.is_write = false;
  entry.unknown = result.unknown;
  entry.crash = result.crash;
  entry.wrong = result.wrong;
  entry.code = result.code;
  // The tape remembers the layouts that the operation saw, under the slots that gradients go to.
  std::vector<TapeSlot> ins;
  for (size_t i = 0; i < run.slots.size(); ++i) {
    ins.push_back({walk.slot_of[run.values[i]], walk.slots[run.slots[i]].layout});
    if (walk.slots[run.slots[i]].cause != kNoId && walk.slots[ins[i].slot].cause == kNoId)
      walk.slots[ins[i].slot].cause = walk.slots[run.slots[i]].cause;
  }
  finish_op(walk, node, index, entry, ins);
}

}  // namespace tpplan
