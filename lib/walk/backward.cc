// Gradients, from the output back: whether what every rank has is complete, or a term of a sum that is still open.
// Descending order of the tape, as autograd goes; a parameter's gradient is complete with its first use.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/gradient.h"
#include "walk/list_operations.h"
#include "walk/walk_state.h"

namespace tpplan {
namespace {

bool is_open(const GradState& state) { return state.open != 0; }

struct GradSegment {
  int64_t begin = 0, end = 0;
  GradState state;
};

struct Grad {
  GradState state;  // or, with segments, what they say
  uint32_t dim = 0;
  std::vector<GradSegment> segments;  // ordered, of one dim of the recorded value; empty: all of it is `state`
  bool has_claim = false;
  Claim claim;
  SpreadId layout = 0;     // of the operand that it is the gradient of
  uint32_t cause = kNoId;  // why it is wrong
  RuleId rule = kNoRule;   // that left it open
};

struct Backward {
  Walk& walk;
  std::vector<Grad> grads;          // by slot
  std::vector<uint32_t> first_use;  // by slot: the last tape entry, going back, that adds to its gradient
};

// One state for all of it; false where segments differ.
bool uniform(const Grad& grad, GradState& state) {
  state = grad.state;
  if (grad.segments.empty()) return true;
  state = kNoGrad;
  for (const GradSegment& s : grad.segments) {
    if (s.state == kNoGrad) continue;
    if (state != kNoGrad && s.state != state) return false;
    state = s.state;
  }
  return true;
}

Grad wrong(Backward& b, const TapeEntry& entry, Code code, std::string reason, RuleId partner) {
  Grad grad;
  grad.state = kWrongGrad;
  std::string op = entry.kind == TapeKind::Op ? std::string(b.walk.graph.strings[b.walk.graph.nodes[entry.node].name])
                   : entry.rule == kNoRule || b.walk.plan.rules[entry.rule].style == nullptr
                       ? std::string()
                       : std::string(b.walk.plan.rules[entry.rule].style->name);
  grad.cause = add_cause(b.walk, {.code = code,
                                  .reason = std::move(reason),
                                  .op = std::move(op),
                                  .module = entry.module,
                                  .rule = entry.rule,
                                  .partner = partner,
                                  .layouts = {}});
  return grad;
}

void put_segment(std::vector<GradSegment>& segments, const GradSegment& add, bool& clash) {
  // Cut what is there at the new one's ends, then join what overlaps.
  std::vector<GradSegment> out;
  std::vector<int64_t> ends{add.begin, add.end};
  for (const GradSegment& s : segments) {
    ends.push_back(s.begin);
    ends.push_back(s.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const int64_t begin = ends[i], end = ends[i + 1];
    GradState state = kNoGrad;
    const auto meet = [&](const GradSegment& s) {
      if (s.begin > begin || s.end < end || s.state == kNoGrad) return;
      if (state == kNoGrad || s.state == kWrongGrad)
        state = s.state;
      else if (state != s.state && state != kWrongGrad)
        clash = true;
    };
    for (const GradSegment& s : segments) meet(s);
    meet(add);
    if (state == kNoGrad) continue;
    if (!out.empty() && out.back().end == begin && out.back().state == state)
      out.back().end = end;
    else
      out.push_back({begin, end, state});
  }
  segments = std::move(out);
}

Grad redistribute_claim(Backward& b, const TapeEntry& entry, Grad grad, const Claim& to, SlotId slot);

// The layout in which torch adds two gradients that are DTensors: a cut decides, and an open sum is closed where the
// other is none.
Claim common_claim(const Claim& a, const Claim& b) {
  Claim common = a;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (a[axis] == b[axis] || is_shard(a[axis])) continue;
    common[axis] = is_shard(b[axis]) ? b[axis] : Placement{};
  }
  return common;
}

void accumulate(Backward& b, SlotId slot, Grad add, const TapeEntry& entry) {
  Grad& have = b.grads[slot];
  const bool first = have.state == kNoGrad && have.segments.empty();
  if (first) {
    have = std::move(add);
    return;
  }
  if (have.has_claim && add.has_claim && have.claim != add.claim) {
    const Claim common = common_claim(have.claim, add.claim);
    have = redistribute_claim(b, entry, std::move(have), common, slot);
    add = redistribute_claim(b, entry, std::move(add), common, slot);
    have.has_claim = add.has_claim = true;
  }
  if (have.state == kWrongGrad) return;
  if (add.state == kWrongGrad) {
    const bool claim = have.has_claim;
    const Claim kept = have.claim;
    have = std::move(add);
    if (!have.has_claim) {
      have.has_claim = claim;
      have.claim = kept;
    }
    return;
  }
  const auto shape = shape_of(b.walk, slot);
  bool clash = false;
  if (have.segments.empty() && add.segments.empty()) {
    clash = have.state != add.state;
  } else {
    const uint32_t dim = have.segments.empty() ? add.dim : have.dim;
    GradState a{}, c{};
    if (!have.segments.empty() && !add.segments.empty() && have.dim != add.dim) {
      clash = !uniform(have, a) || !uniform(add, c) || a != c;
      if (!clash) {
        have.segments.clear();
        have.state = a;
      }
    } else if (dim < shape.size()) {
      if (have.segments.empty()) have.segments = {{0, shape[dim], have.state}};
      if (add.segments.empty()) add.segments = {{0, shape[dim], add.state}};
      have.dim = dim;
      for (const GradSegment& s : add.segments) put_segment(have.segments, s, clash);
      have.state = kComplete;
      if (GradState all{}; uniform(have, all)) have.state = all;
    }
  }
  if (have.rule == kNoRule) have.rule = add.rule;
  if (clash) {
    const bool claim = have.has_claim;
    const Claim kept = have.claim;
    const SpreadId layout = have.layout;
    const RuleId rule = have.rule;
    have = wrong(b, entry, Code::TP5111, "a gradient that is complete and one that is a term of an open sum are added",
                 rule);
    have.has_claim = claim;
    have.claim = kept;
    have.layout = layout;
  }
}

Grad pass(Backward& b, const TapeEntry& entry, const Grad& out, const Spread& x, const Spread& y, RuleId origin) {
  Grad grad = out;
  grad.has_claim = false;
  bool opened = false, any_opened = false, broken = false;
  const auto step = [&](GradState& state) {
    const GradState before = state;
    state = gradient_through(b.walk.table, state, x, y, opened);
    any_opened = any_opened || opened;
    broken = broken || (state == kWrongGrad && before != kWrongGrad);
  };
  if (grad.segments.empty()) {
    step(grad.state);
  } else {
    for (GradSegment& s : grad.segments) step(s.state);
  }
  if (broken)
    return wrong(b, entry, Code::TP5111,
                 "the gradient is a term of a sum that nobody closes, and it is used for pieces", out.rule);
  if (any_opened) grad.rule = origin != kNoRule ? origin : grad.rule;
  return grad;
}

// ---- communication ----

void record(Backward& b, const TapeEntry& entry, CollectiveKind kind, size_t axis, const Spread& layout, SlotId slot) {
  record_call(b.walk, true, kind, axis, entry.module, local_shape(b.walk.table, layout, 0), dtype_of(b.walk, slot));
}

// An open sum is closed along one axis. Complete gradients become too large.
Grad close(Backward& b, const TapeEntry& entry, Grad grad, size_t axis) {
  const AxisMask bit = axis_bit(axis);
  if (grad.state == kWrongGrad) return grad;
  AxisMask open = 0, closed = 0;
  const auto look = [&](GradState& state) {
    if (state.kind != GradKind::Known) return;
    open |= state.open & bit;
    closed |= ~state.open & bit;
    state.open &= ~bit;
  };
  if (grad.segments.empty()) {
    look(grad.state);
  } else {
    for (GradSegment& s : grad.segments) look(s.state);
  }
  if (open != 0 && closed != 0)
    return wrong(b, entry, Code::TP5112,
                 "the gradient is complete in one part and a term of an open sum in another, and all of it is summed",
                 grad.rule);
  if (closed != 0)
    return wrong(b, entry, Code::TP5112,
                 fmt::format("the gradient is complete on every rank, and is summed over {} ranks",
                             b.walk.table.maps.axes[axis]),
                 grad.rule);
  if (GradState all; uniform(grad, all)) {
    grad.segments.clear();
    grad.state = all;
  }
  return grad;
}

// DTensor's redistribution of a gradient from the layout that it claims.
Grad redistribute_claim(Backward& b, const TapeEntry& entry, Grad grad, const Claim& to, SlotId slot) {
  const Claim from = grad.claim;
  grad.claim = to;
  if (from == to) return grad;
  const SpreadId kept = grad.layout;
  const Spread layout = b.walk.table.layouts[kept];
  MapTable& maps = b.walk.table.maps;
  Claim current = from;
  const auto steps = redistribute(from, to);
  for (const Collective& step : steps.value_or(std::vector<Collective>{})) {
    const size_t axis = step.axis;
    const Placement before = current[axis];
    // What lies on ranks on the way: pieces where the claim says so and the value itself is none.
    Spread piece = layout;
    for (size_t i = 0; i < current.size(); ++i) {
      if (!is_shard(current[i])) continue;
      const auto dim = static_cast<size_t>(current[i].dim);
      if (dim < piece.dims.size() && (maps.maps[piece.dims[dim]].axes & axis_bit(i)) == 0)
        piece.dims[dim] = cut_map(maps, piece.dims[dim], i);
    }
    if (step.kind != CollectiveKind::LocalSlice) record(b, entry, step.kind, axis, piece, slot);
    if (before.kind == PlacementKind::Partial) {
      const Claim claim = grad.claim;
      grad = close(b, entry, std::move(grad), axis);
      grad.layout = kept;
      grad.claim = claim;
    } else if (grad.state != kWrongGrad) {
      bool open = is_open(grad.state) && (grad.state.open & axis_bit(axis)) != 0;
      for (const GradSegment& s : grad.segments) open = open || (s.state.open & axis_bit(axis)) != 0;
      if (open) {
        grad = wrong(b, entry, Code::TP5111,
                     "the gradient is a term of an open sum, and is cut or gathered as if it were complete", grad.rule);
        grad.layout = kept;
      }
    }
    current[axis] = placement_after(step, to);
  }
  grad.claim = to;
  return grad;
}

// ---- entries ----

// What DTensor does before it goes back through an operation: a gradient that claims to be an open sum is closed where
// the operation takes pieces, or left a sum open itself.
void close_before(Backward& b, const TapeEntry& entry, std::span<const TapeSlot> ins, const TapeSlot& result) {
  Grad& grad = b.grads[result.slot];
  const Spread& y = b.walk.table.layouts[result.layout];
  if (!grad.has_claim || !y.is_dtensor) return;
  AxisMask pieces = y.partial;
  for (const TapeSlot& in : ins) pieces |= cut_axes(b.walk.table, b.walk.table.layouts[in.layout]);
  Claim closed = grad.claim;
  for (size_t axis = 0; axis < closed.size(); ++axis) {
    if (closed[axis].kind == PlacementKind::Partial && (pieces & axis_bit(axis)) != 0) closed[axis] = {};
  }
  if (closed == grad.claim) return;
  grad.layout = result.layout;
  grad = redistribute_claim(b, entry, std::move(grad), closed, result.slot);
  grad.has_claim = true;
}

void operation_back(Backward& b, const TapeEntry& entry) {
  Walk& walk = b.walk;
  const auto ins = std::span(walk.tape_slots).subspan(entry.in_begin, entry.in_end - entry.in_begin);
  const auto outs = std::span(walk.tape_slots).subspan(entry.out_begin, entry.out_end - entry.out_begin);
  const auto segments =
      std::span(walk.segments).subspan(entry.segments_begin, entry.segments_end - entry.segments_begin);
  const std::string_view op = entry.kind == TapeKind::Op
                                  ? std::string_view(walk.graph.strings[walk.graph.nodes[entry.node].name])
                                  : std::string_view(entry.kind == TapeKind::Divide ? "div" : "add");
  for (size_t o = 0; o < outs.size(); ++o) {
    const Grad& out = b.grads[outs[o].slot];
    if (out.state == kNoGrad && out.segments.empty()) continue;
    close_before(b, entry, ins, outs[o]);
    const Spread& y = walk.table.layouts[outs[o].layout];
    for (size_t i = 0; i < ins.size(); ++i) {
      if (!walk.slots[ins[i].slot].requires_grad) continue;
      const Spread& x = walk.table.layouts[ins[i].layout];
      const Grad* given = &out;
      Grad part;
      const Segment* segment = nullptr;
      for (const Segment& s : segments) {
        if (s.part == (entry.segments_are_arguments ? i : o)) segment = &s;
      }
      if (entry.segments_are_arguments && segment != nullptr && !out.segments.empty()) {
        part = out;
        part.segments.clear();
        if (out.dim == segment->dim) {
          for (const GradSegment& s : out.segments) {
            const int64_t begin = std::max(s.begin, segment->begin), end = std::min(s.end, segment->end);
            if (begin < end) part.segments.push_back({begin - segment->begin, end - segment->begin, s.state});
          }
          if (part.segments.empty()) continue;
          if (GradState all{}; uniform(part, all)) {
            part.segments.clear();
            part.state = all;
          }
        }
        given = &part;
      }
      Grad grad;
      GradState all{};
      const bool is_uniform = uniform(*given, all);
      const bool same_dim = given->segments.empty() || (given->dim < x.dims.size() && y.dims.size() == x.dims.size() &&
                                                        walk.table.maps.maps[x.dims[given->dim]].size ==
                                                            walk.table.maps.maps[y.dims[given->dim]].size);
      const bool slices = segment != nullptr && !entry.segments_are_arguments;
      if (given->state == kWrongGrad) {
        grad = *given;
        grad.segments.clear();
      } else if (is_uniform && !given->segments.empty() && !slices && !same_dim) {
        Grad flat = *given;
        flat.segments.clear();
        flat.state = all;
        grad = pass(b, entry, flat, x, y, walk.slots[outs[o].slot].origin);
      } else if (!is_uniform &&
                 (op == "linear" || op == "matmul" || op == "bmm" || op == "view" || op == "reshape" || !same_dim)) {
        // The weight's rows are those of the result: its gradient is mixed like it, and no one state is right.
        grad = wrong(b, entry, Code::TP5111,
                     "the gradient is complete in one part of a dim and a term of an open sum in another, and both "
                     "parts are used as one",
                     given->rule);
      } else {
        grad = pass(b, entry, *given, x, y, walk.slots[outs[o].slot].origin);
      }
      if (slices && grad.state != kWrongGrad) {
        std::vector<GradSegment> shifted;
        if (grad.segments.empty())
          shifted = {{segment->begin, segment->end, grad.state}};
        else if (grad.dim == segment->dim)
          for (const GradSegment& s : grad.segments)
            shifted.push_back({s.begin + segment->begin, s.end + segment->begin, s.state});
        else
          shifted = {{segment->begin, segment->end, is_uniform ? all : kWrongGrad}};
        grad.dim = segment->dim;
        grad.segments = std::move(shifted);
      }
      grad.layout = ins[i].layout;
      if (y.is_dtensor && x.is_dtensor) {
        grad.has_claim = true;
        grad.claim = whole_claim(walk);
        bool once = false;
        for (size_t axis = 0; axis < walk.axes.size(); ++axis) {
          const Placement& from = x.claim[axis];
          const Placement& to = y.claim[axis];
          const bool bias = op == "linear" && i == 2 && to.kind == PlacementKind::Partial;
          const bool stays_open = out.has_claim && out.claim[axis].kind == PlacementKind::Partial;
          if (is_shard(from))
            grad.claim[axis] = from;
          else if (bias || to.kind == PlacementKind::Replicate || from.kind == PlacementKind::Partial)
            // A gradient that claims to be an open sum stays one behind a whole value.
            grad.claim[axis] = stays_open ? out.claim[axis] : Placement{};
          else
            grad.claim[axis].kind = PlacementKind::Partial;
          once = once || bias;
        }
        if (once && grad.state != kWrongGrad) {
          // Added once: its gradient is the result's.
          grad.state = given->state;
          grad.segments.clear();
        }
      }
      accumulate(b, ins[i].slot, std::move(grad), entry);
    }
  }
}

void step_back(Backward& b, const TapeEntry& entry) {
  Walk& walk = b.walk;
  const SlotId in = walk.tape_slots[entry.in_begin].slot, out = walk.tape_slots[entry.out_begin].slot;
  const SpreadId in_layout = walk.tape_slots[entry.in_begin].layout;
  Grad grad = b.grads[out];
  if (grad.state == kNoGrad && grad.segments.empty()) return;
  grad.layout = walk.tape_slots[entry.out_begin].layout;
  switch (entry.kind) {
    case TapeKind::Op:
    case TapeKind::Divide:
    case TapeKind::AddBias:
      return operation_back(b, entry);
    case TapeKind::Gather:
      // Cut again, without communication: every rank's is taken to be complete.
      if (GradState state{}; grad.state != kWrongGrad && (!uniform(grad, state) || is_open(state)))
        grad = wrong(b, entry, Code::TP5111, "the gradient is a term of an open sum, and is cut as if it were complete",
                     grad.rule);
      break;
    case TapeKind::ToLocal:
      grad.has_claim = true;
      grad.claim = entry.gradient;
      break;
    case TapeKind::FromLocal:
      if (b.grads[out].layout != 0) grad.layout = b.grads[out].layout;
      grad = redistribute_claim(b, entry, std::move(grad), entry.gradient, in);
      grad.has_claim = false;
      break;
    case TapeKind::Redistribute:
      if (b.grads[out].layout != 0) grad.layout = b.grads[out].layout;
      grad = redistribute_claim(b, entry, std::move(grad), entry.gradient, in);
      grad.has_claim = true;
      break;
    case TapeKind::SumGradient:
      record(b, entry, CollectiveKind::AllReduce, entry.axis, walk.table.layouts[grad.layout], in);
      grad = close(b, entry, std::move(grad), entry.axis);
      break;
    case TapeKind::SumValue:
    case TapeKind::View:
      break;
    case TapeKind::SumTailGradient: {
      const auto shape = shape_of(walk, in);
      const int64_t tail = walk.rope_dim;
      if (shape.empty() || tail <= 0 || tail > shape.back()) break;
      const auto last = static_cast<uint32_t>(shape.size() - 1);
      const int64_t at = shape.back() - tail;
      std::vector<int64_t> local = local_shape(walk.table, walk.table.layouts[grad.layout], 0);
      local.back() = tail;
      record_call(walk, true, CollectiveKind::AllReduce, 0, entry.module, std::move(local), dtype_of(walk, in));
      if (grad.state == kWrongGrad) break;
      std::vector<GradSegment> parts;
      if (grad.segments.empty())
        parts = {{0, shape.back(), grad.state}};
      else if (grad.dim == last)
        parts = grad.segments;
      else
        break;
      bool clash = false, complete = false;
      std::vector<GradSegment> closed;
      for (const GradSegment& s : parts) {
        if (s.begin < at) put_segment(closed, {s.begin, std::min(s.end, at), s.state}, clash);
        if (s.end > at) {
          complete = complete || s.state == kComplete;
          put_segment(closed, {std::max(s.begin, at), s.end, kComplete}, clash);
        }
      }
      if (complete) {
        grad = wrong(
            b, entry, Code::TP5112,
            fmt::format("the gradient of the last {} elements is complete on every rank, and is summed over {} ranks",
                        tail, walk.ranks),
            grad.rule);
        break;
      }
      grad.dim = last;
      grad.segments = std::move(closed);
      if (GradState all{}; uniform(grad, all)) {
        grad.state = all;
        grad.segments.clear();
      }
      break;
    }
  }
  grad.layout = in_layout;
  // What comes back to a cut value must be its own.
  const Spread& x = walk.table.layouts[in_layout];
  GradState state{};
  AxisMask misplaced = 0;
  if (grad.state != kWrongGrad && uniform(grad, state)) misplaced = state.open & cut_axes(walk.table, x) & ~x.partial;
  for (size_t axis = 0; grad.has_claim && axis < grad.claim.size(); ++axis) {
    if (grad.claim[axis].kind == PlacementKind::Partial) misplaced &= ~axis_bit(axis);
  }
  if (misplaced != 0)
    grad = wrong(b, entry, Code::TP5111,
                 "the gradient is a term of a sum that nobody closes, and it is used for pieces", grad.rule);
  if (grad.state == kWrongGrad && entry.kind == TapeKind::ToLocal) {
    grad.has_claim = true;
    grad.claim = entry.gradient;
  }
  if (grad.state == kWrongGrad && entry.kind == TapeKind::Redistribute) {
    grad.has_claim = true;
    grad.claim = entry.gradient;
  }
  accumulate(b, in, std::move(grad), entry);
}

// ---- ends ----

bool claims_open(const Grad& grad) {
  return grad.has_claim && std::any_of(grad.claim.begin(), grad.claim.end(),
                                       [](const Placement& p) { return p.kind == PlacementKind::Partial; });
}

void judge_parameter(Backward& b, ParamId id, SlotId slot, bool report_findings) {
  Walk& walk = b.walk;
  Grad grad = b.grads[slot];
  if (grad.state == kNoGrad && grad.segments.empty()) return;
  const Param& param = walk.model.params[id];
  TapeEntry entry{.kind = TapeKind::SumGradient, .module = param.module, .rule = walk.matches.params[id].rule};
  if (const RuleId sums = walk.sum_rule[walk.value_of_param[id]]; sums != kNoRule) {
    entry.rule = sums;
    record(b, entry, CollectiveKind::AllReduce, 0, layout_of(walk, slot), slot);
    if (!claims_open(grad)) grad = close(b, entry, std::move(grad), 0);
  }
  GradState state{};
  const bool one = uniform(grad, state);
  list_gradient(walk, id,
                grad.state == kWrongGrad ? "wrong"
                : !one                   ? "complete in one part, a term of an open sum in another"
                : !is_open(state)        ? "complete"
                : claims_open(grad)      ? "a term of an open sum, and known to be"
                                         : "a term of an open sum");
  if (!report_findings) return;
  Cause cause{.code = Code::TP5111,
              .reason = {},
              .op = {},
              .module = param.module,
              .rule = entry.rule,
              .partner = grad.rule,
              .layouts = {}};
  const std::string name = path_of(walk.model, param);
  if (grad.state == kWrongGrad) {
    if (grad.cause != kNoId) {
      cause = walk.causes[grad.cause];
      cause.layouts = fmt::format("first seen in the gradient of `{}`", name);
    }
  } else if (!one) {
    cause.reason =
        fmt::format("the gradient of `{}` is complete in one part and a term of an open sum in another", name);
  } else if (claims_open(grad)) {
    if (state != kComplete) return;
    cause.code = Code::TP5112;
    cause.reason =
        fmt::format("the gradient of `{}` is complete on every rank, and is taken for a term of a sum over {} ranks",
                    name, walk.ranks);
  } else if (is_open(state)) {
    cause.reason =
        fmt::format("each of {} ranks has only its part of the gradient of `{}`, and nobody sums it", walk.ranks, name);
  } else {
    return;
  }
  report_cause(walk, cause, "gradient");
}

}  // namespace

void walk_backward(Walk& walk, bool report_findings) {
  Backward b{.walk = walk, .grads = {}, .first_use = {}};
  b.grads.resize(walk.slots.size());
  b.first_use.assign(walk.slots.size(), kNoId);
  std::vector<bool> reached(walk.slots.size(), false);
  for (const ValueId output : walk.graph.outputs) {
    const SlotId slot = walk.slot_of[output];
    if (!walk.slots[slot].requires_grad) continue;
    reached[slot] = true;
    const Spread& layout = layout_of(walk, slot);
    b.grads[slot] = {.state = kComplete,
                     .has_claim = layout.is_dtensor,
                     .claim = for_gradient(layout.claim),
                     .layout = walk.slots[slot].layout};
  }
  for (size_t i = walk.tape.size(); i-- > 0;) {
    const TapeEntry& entry = walk.tape[i];
    bool used = false;
    for (uint32_t o = entry.out_begin; o < entry.out_end; ++o) used = used || reached[walk.tape_slots[o].slot];
    if (!used) continue;
    for (uint32_t in = entry.in_begin; in < entry.in_end; ++in) {
      const SlotId slot = walk.tape_slots[in].slot;
      if (!walk.slots[slot].requires_grad) continue;
      reached[slot] = true;
      b.first_use[slot] = static_cast<uint32_t>(i);
    }
  }
  std::unordered_map<SlotId, ParamId> params;
  for (ParamId id = 0; id < walk.value_of_param.size(); ++id) {
    if (walk.value_of_param[id] != kNoId) params.emplace(walk.slot_of[walk.value_of_param[id]], id);
  }
  for (size_t i = walk.tape.size(); i-- > 0;) {
    const TapeEntry entry = walk.tape[i];
    if (entry.kind == TapeKind::Op || entry.kind == TapeKind::Divide || entry.kind == TapeKind::AddBias)
      operation_back(b, entry);
    else
      step_back(b, entry);
    for (uint32_t in = entry.in_begin; in < entry.in_end; ++in) {
      const SlotId slot = walk.tape_slots[in].slot;
      if (b.first_use[slot] != i) continue;
      const auto param = params.find(slot);
      if (param == params.end()) continue;
      b.first_use[slot] = kNoId;
      judge_parameter(b, param->second, slot, report_findings);
    }
  }
}

}  // namespace tpplan
