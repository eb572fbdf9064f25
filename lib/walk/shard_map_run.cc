// The way of running of jax.shard_map: each rank runs the same program on its pieces, and only what the program calls
// moves anything. A graph recorded so (python -m tpplan.export --shard-map) says with `in_spec` and `out_spec` how
// values come in and leave, names its collectives, and notes sizes of which ranks have their own as `local`.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "sharding/tensor_size.h"
#include "walk/causes.h"
#include "walk/finish_op.h"
#include "walk/node_args.h"
#include "walk/operations.h"
#include "walk/param_layouts.h"
#include "walk/record_call.h"
#include "walk/slots.h"
#include "walk/walk_state.h"

namespace tpplan {
namespace {

constexpr size_t kNoAxisHere = static_cast<size_t>(-1);

// An operation on its way.
struct LocalOp {
  Walk& walk;
  const GraphNode& node;
  uint32_t index;
  OpCall call;
  std::string_view name;
};

const LocalFact* fact_of(const Walk& walk, ValueId value) {
  const auto found = walk.facts.find(walk.slot_of[value]);
  return found == walk.facts.end() ? nullptr : &found->second;
}

ValueId root_of(const Walk& walk, ValueId value) {
  const auto found = walk.same_integers.find(value);
  return found == walk.same_integers.end() ? value : found->second;
}

ValueId result_of(const LocalOp& op) { return op.walk.graph.outs[op.node.out_begin]; }

// A value of which nothing is known but its layout.
bool is_plain_fact(const LocalFact* fact) {
  if (fact == nullptr) return true;
  if (fact->numerator != fact->denominator || fact->open_maximum != 0 || fact->kind == FactKind::Rows) return false;
  return fact->kind == FactKind::None || std::all_of(fact->by_rank.begin(), fact->by_rank.end(),
                                                     [&](const RankFunction& f) { return f == fact->whole; });
}

bool is_float(const Walk& walk, ValueId value) {
  const std::string_view dtype = walk.graph.strings[walk.graph.values[value].dtype];
  return dtype.find("float") != std::string_view::npos || dtype.starts_with("complex");
}

std::vector<TapeSlot> operands_of(const LocalOp& op) {
  std::vector<TapeSlot> ins;
  for (const ValueId value : values_in(op.walk, op.node))
    ins.push_back({op.walk.slot_of[value], op.walk.layout_of[value]});
  return ins;
}

// The end of what can be said: nobody knows what the operation makes of it.
void give_up(LocalOp& op) {
  MemoEntry entry{.outs = {}, .segments = {}, .unknown = true, .crash = {}, .wrong = {}};
  for (uint32_t i = op.node.out_begin; i < op.node.out_end; ++i)
    entry.outs.push_back(op.walk.whole_of_shape[op.walk.graph.values[op.walk.graph.outs[i]].shape]);
  finish_op(op.walk, op.node, op.index, entry, operands_of(op));
}

// Binds the one result; a file may say that there are others.
void give_result(LocalOp& op, const Spread& layout, Code code = {}, std::string wrong = {}) {
  if (op.node.out_end - op.node.out_begin != 1 || layout.dims.size() != out_shape(op.call).size()) return give_up(op);
  MemoEntry entry{.outs = {}, .segments = {}, .crash = {}, .wrong = std::move(wrong), .code = code};
  Spread out = layout;
  out.wrong = out.is_dtensor = out.local_view = false;
  out.claim.clear();
  out.claimed_shape.clear();
  entry.outs.push_back(intern(op.walk.table, out));
  finish_op(op.walk, op.node, op.index, entry, operands_of(op));
}

void set_fact(LocalOp& op, LocalFact fact) {
  if (op.walk.crash == kNoId) op.walk.facts[op.walk.slot_of[result_of(op)]] = std::move(fact);
}

// By its rule, which sees layouts alone, and the results are wrong for a reason that the rule does not see.
void run_wrong(LocalOp& op, Code code, const std::string& reason) {
  run_by_rule(op.walk, op.node, op.index);
  if (op.walk.crash != kNoId) return;
  for (uint32_t i = op.node.out_begin; i < op.node.out_end; ++i) {
    const ValueId value = op.walk.graph.outs[i];
    const SlotId slot = op.walk.slot_of[value];
    if (!layout_of(op.walk, slot).wrong)
      spoil(op.walk, slot, code, reason, op.walk.slots[slot].origin, kNoRule, std::string(op.name));
    set_slot(op.walk, value, slot);
  }
}

// ---- axes and specs ----

std::string_view text_of(const LocalOp& op, const GraphArg& arg) {
  return arg.kind == ArgKind::Text ? op.walk.graph.texts[arg.id] : std::string_view{};
}

// Where it stands among those that are walked; kNoAxisHere where ranks do not differ along it.
size_t walked_axis(const LocalOp& op, std::string_view name) {
  const AxisId axis = find_axis(op.walk.plan.mesh, name);
  const auto at = std::find(op.walk.axes.begin(), op.walk.axes.end(), axis);
  return at == op.walk.axes.end() ? kNoAxisHere : static_cast<size_t>(at - op.walk.axes.begin());
}

// The axes that an argument names: a text, or a tuple of them.
std::vector<size_t> axes_at(const LocalOp& op, size_t position) {
  std::vector<size_t> axes;
  uint32_t at = 0;
  const GraphArg* arg = find_arg(op.call, position, {}, &at);
  if (arg == nullptr) return axes;
  for (uint32_t i = at; i < arg->end; ++i) {
    const std::string_view name = text_of(op, op.walk.graph.args[i]);
    const size_t axis = name.empty() ? kNoAxisHere : walked_axis(op, name);
    if (axis != kNoAxisHere) axes.push_back(axis);
  }
  return axes;
}

// The layout of a whole value under the spec at argument 1: for each dim null, an axis, or axes major to minor.
Spread specified(LocalOp& op, std::span<const int64_t> shape) {
  Spread layout = whole_layout(op.walk.table, shape);
  uint32_t at = 0;
  const GraphArg* spec = find_arg(op.call, 1, {}, &at);
  if (spec == nullptr) return layout;
  size_t dim = 0;
  for (uint32_t i = at + 1; i < spec->end && dim < layout.dims.size(); i = op.walk.graph.args[i].end, ++dim) {
    for (uint32_t j = i; j < op.walk.graph.args[i].end; ++j) {
      const std::string_view name = text_of(op, op.walk.graph.args[j]);
      const size_t axis = name.empty() ? kNoAxisHere : walked_axis(op, name);
      if (axis != kNoAxisHere) layout.dims[dim] = cut_map(op.walk.table.maps, layout.dims[dim], axis);
    }
  }
  return layout;
}

// False, with the reason: the plan is for another mesh than the program was recorded on, (name, size) at argument 2.
bool check_mesh(LocalOp& op) {
  uint32_t at = 0;
  const GraphArg* recorded = find_arg(op.call, 2, {}, &at);
  if (recorded == nullptr) return true;
  const Mesh& mesh = op.walk.plan.mesh;
  size_t axes = 0;
  std::string text;
  bool same = true;
  for (uint32_t i = at + 1; i + 1 < recorded->end; i += 2, ++axes) {
    const std::string_view name = text_of(op, op.walk.graph.args[i]);
    const int64_t size = op.walk.graph.args[i + 1].integer;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
    const AxisId axis = find_axis(mesh, name);
    same = same && axis != kNoAxis && mesh.axes[axis].size == size;
  }
  if (same && axes == mesh.axes.size()) return true;
  crash_at(op.walk, Code::TP5122,
           fmt::format("the program was recorded on the mesh [{}], and the plan is for another: record it again", text),
           kNoRule, kNoRule, "in_spec");
  return false;
}

void take_in(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x || !check_mesh(op)) return;
  const SlotId slot = op.walk.slot_of[x->value];
  const Spread wanted = specified(op, x->shape);
  if (op.walk.slots[slot].param == kNone) return give_result(op, wanted);
  const Spread& held = layout_of(op.walk, slot);
  if (held.dims == wanted.dims) return give_result(op, wanted);
  const Param& param = op.walk.model.params[op.walk.slots[slot].param];
  crash_at(
      op.walk, Code::TP5122,
      fmt::format("the program was recorded with `{}` as {}, and the plan makes it {}: record it again",
                  path_of(op.walk.model, param), layout_text(op.walk.table, wanted), layout_text(op.walk.table, held)),
      op.walk.slots[slot].origin, kNoRule, "in_spec");
}

// ---- scales and open maxima: what is left to be done of a mean or a maximum ----

bool is_scaled(const LocalFact* fact) { return fact != nullptr && fact->numerator != fact->denominator; }

// Numbers that go too far become 0, which is no scale that anything has.
void scale(LocalFact& fact, int64_t numerator, int64_t denominator) {
  int64_t n = 0, d = 0;
  if (__builtin_mul_overflow(fact.numerator, numerator, &n) ||
      __builtin_mul_overflow(fact.denominator, denominator, &d))
    n = 0;
  const int64_t common = n == 0 ? 1 : std::gcd(n, d);
  const bool far = n == 0 || n / common > kFarInteger || d / common > kFarInteger;
  fact.numerator = far ? 0 : n / common;
  fact.denominator = far ? 1 : d / common;
}

std::string scale_text(const LocalFact& fact) {
  return fact.denominator == 1 ? fmt::format("{}", fact.numerator)
                               : fmt::format("{}/{}", fact.numerator, fact.denominator);
}

std::string fault_of(const LocalOp& op, const LocalFact& fact) {
  if (is_scaled(&fact))
    return fmt::format("{} of what is {} times the value of the whole model: {}", op.name, scale_text(fact),
                       fact.scaled_by);
  if (fact.open_maximum != 0)
    return fmt::format("{} of the {} of a rank's own piece", op.name, fact.is_minimum ? "minimum" : "maximum");
  return fmt::format("{} of rows that are another rank's", op.name);
}

Code code_of(const LocalFact& fact) { return is_scaled(&fact) ? Code::TP5109 : Code::TP5113; }

// What leaves is promised by out_specs: every rank of an axis that it does not name has the same.
void let_out(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return;
  const Spread held = *x->layout, promised = specified(op, x->shape);
  const Spread whole = whole_layout(op.walk.table, x->shape);
  const LocalFact* fact = fact_of(op.walk, x->value);
  if (!is_plain_fact(fact) && fact->kind != FactKind::Table)
    return give_result(op, whole, code_of(*fact), fault_of(op, *fact));
  if (!is_plain_fact(fact)) return give_up(op);
  if (held.partial == 0 && held.dims == promised.dims) return give_result(op, whole);
  give_result(op, whole, Code::TP5110,
              fmt::format("the result is promised to be {} on the ranks, and is {}",
                          layout_text(op.walk.table, promised), layout_text(op.walk.table, held)));
}

// ---- collectives ----

void note_call(LocalOp& op, CollectiveKind kind, size_t axis, const Spread& layout) {
  const ValueId value = values_in(op.walk, op.node).front();
  record_call(op.walk, false, kind, axis, kNone, local_shape(op.walk.table, layout, 0),
              op.walk.graph.strings[op.walk.graph.values[value].dtype]);
}

bool is_cut_along(const LocalOp& op, const Spread& layout, size_t axis) {
  return (cut_axes(op.walk.table, layout) & axis_bit(axis)) != 0;
}

// Adds up what the ranks of the axis have. False, with what is wrong.
bool add_up(LocalOp& op, Spread& layout, size_t axis, LocalFact& fact, Code& code, std::string& wrong) {
  const auto ways = static_cast<int64_t>(op.walk.table.maps.axes[axis]);
  if (is_cut_along(op, layout, axis)) {
    code = Code::TP5107;
    wrong = fmt::format("{} adds up different pieces: {}", op.name, layout_text(op.walk.table, layout));
    return false;
  }
  if ((layout.partial & axis_bit(axis)) == 0 && !layout.zero) {
    scale(fact, ways, 1);
    fact.scaled_by = fmt::format("{} adds up {} times what every rank has complete", op.name, ways);
  }
  layout.partial &= ~axis_bit(axis);
  return true;
}

void run_psum(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return give_up(op);
  Spread layout = *x->layout;
  const LocalFact* known = fact_of(op.walk, x->value);
  LocalFact fact;
  if (known != nullptr && known->kind == FactKind::Table && !is_plain_fact(known)) return give_up(op);
  if (known != nullptr && !is_plain_fact(known) && !is_scaled(known))
    return give_result(op, layout, code_of(*known), fault_of(op, *known));
  if (is_scaled(known)) fact = *known;
  Code code{};
  std::string wrong;
  for (const size_t axis : axes_at(op, 1)) {
    note_call(op, CollectiveKind::AllReduce, axis, layout);
    if (!add_up(op, layout, axis, fact, code, wrong)) break;
  }
  give_result(op, layout, code, wrong);
  if (fact.numerator != fact.denominator) set_fact(op, fact);
}

// pmax, pmin.
void run_extremum(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return give_up(op);
  const Spread layout = *x->layout;
  const LocalFact* known = fact_of(op.walk, x->value);
  LocalFact fact = known == nullptr ? LocalFact{} : *known;
  if (fact.kind != FactKind::None && !is_plain_fact(known)) return give_up(op);
  const bool other = fact.open_maximum != 0 && fact.is_minimum != (op.name == "pmin");
  Code code = Code::TP5107;
  std::string wrong;
  for (const size_t axis : axes_at(op, 1)) {
    note_call(op, CollectiveKind::AllReduce, axis, layout);
    if ((layout.partial & axis_bit(axis)) != 0) {
      code = Code::TP5108;
      wrong = fmt::format("{} of a sum that is still open", op.name);
    } else if (is_cut_along(op, layout, axis)) {
      wrong = fmt::format("{} compares different pieces: {}", op.name, layout_text(op.walk.table, layout));
    }
    if (!other) fact.open_maximum &= ~axis_bit(axis);
  }
  give_result(op, layout, code, wrong);
  set_fact(op, fact);
}

// The dim at argument 1, of the axes at argument 2, the last one first: what stands together is gathered first.
void run_all_gather(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return give_up(op);
  Spread layout = *x->layout;
  const LocalFact* known = fact_of(op.walk, x->value);
  if (!is_plain_fact(known) && !is_scaled(known)) return give_up(op);
  const auto dim = static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  std::vector<size_t> axes = axes_at(op, 2);
  Code code = Code::TP5107;
  std::string wrong;
  for (auto axis = axes.rbegin(); axis != axes.rend() && dim < layout.dims.size(); ++axis) {
    note_call(op, CollectiveKind::AllGather, *axis, layout);
    if ((layout.partial & axis_bit(*axis)) != 0) {
      code = Code::TP5108;
      wrong = "all_gather of a sum that is still open";
    }
    bool right = false;
    const MapId map = layout.dims[dim];
    layout.dims[dim] = gathered_map(op.walk.table.maps, map, *axis, right);
    if (!right && wrong.empty())
      wrong = fmt::format("all_gather over dim {} as if it were cut: {}", dim, map_text(op.walk.table.maps, map));
  }
  give_result(op, layout, code, wrong);
  if (is_scaled(known)) set_fact(op, *known);
}

void run_reduce_scatter(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x) return give_up(op);
  Spread layout = *x->layout;
  const LocalFact* known = fact_of(op.walk, x->value);
  if (!is_plain_fact(known) && !is_scaled(known)) return give_up(op);
  LocalFact fact = is_scaled(known) ? *known : LocalFact{};
  const auto dim = static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  Code code{};
  std::string wrong;
  for (const size_t axis : axes_at(op, 2)) {
    note_call(op, CollectiveKind::ReduceScatter, axis, layout);
    if (dim >= layout.dims.size() || !add_up(op, layout, axis, fact, code, wrong)) break;
    layout.dims[dim] = cut_map(op.walk.table.maps, layout.dims[dim], axis);
  }
  give_result(op, layout, code, wrong);
  if (is_scaled(&fact)) set_fact(op, fact);
}

// Dim at argument 1 is cut, dim at argument 2 is put together.
void run_all_to_all(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  const std::vector<size_t> axes = axes_at(op, 3);
  if (!x || axes.size() > 1) return give_up(op);
  Spread layout = *x->layout;
  const LocalFact* known = fact_of(op.walk, x->value);
  if (!is_plain_fact(known) && !is_scaled(known)) return give_up(op);
  const size_t ndim = layout.dims.size();
  const auto split = static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  const auto joined = static_cast<size_t>(number_at(op.call, 2, {}, 0).traced);
  if (split >= ndim || joined >= ndim) return give_up(op);
  std::string wrong;
  for (const size_t axis : axes) {
    note_call(op, CollectiveKind::AllToAll, axis, layout);
    bool right = false;
    const MapId map = layout.dims[joined];
    layout.dims[joined] = gathered_map(op.walk.table.maps, map, axis, right);
    if (!right || (op.walk.table.maps.maps[layout.dims[split]].axes & axis_bit(axis)) != 0)
      wrong = fmt::format("all_to_all puts dim {} together as if it were cut: {}", joined,
                          map_text(op.walk.table.maps, map));
    layout.dims[split] = cut_map(op.walk.table.maps, layout.dims[split], axis);
  }
  give_result(op, layout, Code::TP5107, wrong);
  if (is_scaled(known)) set_fact(op, *known);
}

// ---- places in the mesh ----

void run_axis_index(LocalOp& op) {
  LocalFact fact{.kind = FactKind::Table, .by_rank = {}, .whole = constant_function(0), .scaled_by = {}};
  const std::vector<size_t> axes = axes_at(op, 0);
  for (size_t rank = 0; rank < op.walk.ranks; ++rank) {
    int64_t place = 0;
    for (const size_t axis : axes)
      place = place * static_cast<int64_t>(op.walk.table.maps.axes[axis]) +
              static_cast<int64_t>(coordinate(op.walk.table.maps, rank, axis));
    fact.by_rank.push_back(constant_function(place));
  }
  give_result(op, whole_layout(op.walk.table, out_shape(op.call)));
  set_fact(op, std::move(fact));
}

// iota(sizes, dim): each rank counts from 0.
void run_iota(LocalOp& op) {
  MapTable& maps = op.walk.table.maps;
  const std::vector<RankNumber> sizes = numbers_at(op.call, 0, {});
  const auto along = static_cast<size_t>(number_at(op.call, 1, {}, 0).traced);
  const auto shape = out_shape(op.call);
  Spread layout;
  for (size_t dim = 0; dim < shape.size() && dim < sizes.size(); ++dim) {
    if (dim != along) {
      layout.dims.push_back(any_map(maps, shape[dim], sizes[dim].local, sizes[dim].axes));
      continue;
    }
    RankRuns runs;
    for (const int64_t size : sizes[dim].local) runs.push_back({{0, std::clamp<int64_t>(size, 0, shape[dim])}});
    layout.dims.push_back(runs_map(maps, shape[dim], std::move(runs)));
  }
  give_result(op, layout);
  set_fact(op, {.by_rank = {}, .whole = {}, .counts_along = static_cast<int>(along), .scaled_by = {}});
}

bool has_own_number(const LocalOp& op) {
  return std::any_of(op.call.args.begin(), op.call.args.end(), [&](uint32_t at) {
    const GraphArg& arg = op.walk.graph.args[at];
    return arg.kind == ArgKind::Size && op.walk.graph.sizes[arg.id].op == SizeOp::Local;
  });
}

// What stands at an argument, as a function of an integer of the whole model; `base` is that integer.
struct IndexArgument {
  ValueId base = kNoId;
  std::vector<RankFunction> by_rank;
  RankFunction whole;
};

std::optional<IndexArgument> index_argument(const LocalOp& op, const GraphArg& arg) {
  IndexArgument out;
  if (arg.kind == ArgKind::Value) {
    const LocalFact* fact = fact_of(op.walk, arg.id);
    if (fact != nullptr && fact->kind == FactKind::Table) return IndexArgument{fact->base, fact->by_rank, fact->whole};
    // Pieces of the batch are followed as well: an element is what it is, whoever has it.
    const Spread& layout = op.walk.table.layouts[op.walk.layout_of[arg.id]];
    if (!is_plain_fact(fact) || layout.partial != 0 || is_float(op.walk, arg.id)) return std::nullopt;
    return IndexArgument{root_of(op.walk, arg.id), std::vector<RankFunction>(op.walk.ranks, same_integer()),
                         same_integer()};
  }
  if (!is_number(&arg) && arg.kind != ArgKind::Float) return std::nullopt;
  if (arg.kind == ArgKind::Float ||
      (arg.kind == ArgKind::Number && arg.number != static_cast<double>(static_cast<int64_t>(arg.number))))
    return std::nullopt;
  const RankNumber number = number_of(op.call, arg);
  const auto is_far = [](int64_t n) { return n < -kFarInteger || n > kFarInteger; };
  if (is_far(number.traced) || std::any_of(number.local.begin(), number.local.end(), is_far)) return std::nullopt;
  for (const int64_t n : number.local) out.by_rank.push_back(constant_function(n));
  out.whole = constant_function(number.traced);
  return out;
}

// All arguments from `first` on; nullopt where one is none, or they are functions of different integers.
std::optional<std::vector<IndexArgument>> index_arguments(const LocalOp& op, ValueId& base) {
  std::vector<IndexArgument> all;
  base = kNoId;
  for (const uint32_t at : op.call.args) {
    auto argument = index_argument(op, op.walk.graph.args[at]);
    if (!argument || (base != kNoId && argument->base != kNoId && argument->base != base)) return std::nullopt;
    if (argument->base != kNoId) base = argument->base;
    all.push_back(std::move(*argument));
  }
  return all;
}

std::optional<RankFunction> apply_function(std::string_view name, std::span<const RankFunction* const> f) {
  if (f.size() == 1) {
    if (name == "logical_not" || name == "bitwise_not") return combine("eq", *f[0], constant_function(0));
    if (name == "neg") return combine("sub", constant_function(0), *f[0]);
    if (name == "bool") return combine("ne", *f[0], constant_function(0));
    return std::nullopt;
  }
  if (name == "where" && f.size() == 3) return choose(*f[0], *f[1], *f[2]);
  if (name == "clamp" && f.size() == 3) {
    const auto low = combine("maximum", *f[0], *f[1]);
    return low ? combine("minimum", *low, *f[2]) : std::nullopt;
  }
  return f.size() == 2 ? combine(name, *f[0], *f[1]) : std::nullopt;
}

// Element by element, of functions of the same integers. False where they are not followed.
bool run_table(LocalOp& op) {
  LocalFact fact{.kind = FactKind::Table, .by_rank = {}, .whole = {}, .scaled_by = {}};
  const auto arguments = index_arguments(op, fact.base);
  if (!arguments || arguments->empty()) return false;
  for (size_t rank = 0; rank <= op.walk.ranks; ++rank) {
    std::vector<const RankFunction*> f;
    for (const IndexArgument& a : *arguments) f.push_back(rank == op.walk.ranks ? &a.whole : &a.by_rank[rank]);
    auto made = apply_function(op.name, f);
    if (!made) return false;
    if (rank == op.walk.ranks)
      fact.whole = std::move(*made);
    else
      fact.by_rank.push_back(std::move(*made));
  }
  // A number of each rank's own is followed here, which the rule takes for a wrong one.
  const OpResult by_rule = run_rule(op.call);
  const bool wrong = !by_rule.wrong.empty() && !has_own_number(op);
  if (!by_rule.crash.empty() || wrong || by_rule.outs.empty())
    run_by_rule(op.walk, op.node, op.index);
  else
    give_result(op, by_rule.outs[0]);
  set_fact(op, std::move(fact));
  return true;
}

// A straight line of slope `slope` over all integers, as its offset.
std::optional<int64_t> shift_of(const RankFunction& function, int64_t slope) {
  if (function.size() != 1 || function[0].slope != slope) return std::nullopt;
  return function[0].offset;
}

// By rank how far what it computes is from what the whole model does.
std::optional<std::vector<int64_t>> shifts_of(const LocalOp& op, const LocalFact& table, int64_t slope) {
  std::vector<int64_t> shifts;
  const auto whole = shift_of(table.whole, slope);
  for (size_t rank = 0; rank < op.walk.ranks; ++rank) {
    const auto own = shift_of(table.by_rank[rank], slope);
    if (!own || !whole) return std::nullopt;
    shifts.push_back(*own - *whole);
  }
  return shifts;
}

// The dim's elements `by` further on, on each rank; nullopt where some would be none of the dim's.
std::optional<MapId> shifted(LocalOp& op, MapId id, std::span<const int64_t> by) {
  const DimMap map = op.walk.table.maps.maps[id];
  if (map.kind == MapKind::Any) return std::nullopt;
  RankRuns runs(op.walk.ranks);
  for (size_t rank = 0; rank < op.walk.ranks; ++rank) {
    for (const Interval& run : runs_of(map, rank)) {
      if (run.begin + by[rank] < 0 || run.end + by[rank] > map.size) return std::nullopt;
      runs[rank].push_back({run.begin + by[rank], run.end + by[rank]});
    }
  }
  return runs_map(op.walk.table.maps, map.size, std::move(runs));
}

// What counts 0, 1, 2.. meets where a rank begins (iota + place * size), or an index of which the rank's beginning was
// taken (iota == token - place * size). False where it is neither.
bool run_count(LocalOp& op) {
  const std::vector<ValueId> values = values_in(op.walk, op.node);
  if (values.size() != 2 || op.call.args.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const LocalFact *counts = fact_of(op.walk, values[i]), *table = fact_of(op.walk, values[1 - i]);
    if (counts == nullptr || counts->counts_along < 0 || table == nullptr || table->kind != FactKind::Table) continue;
    const bool adds = (op.name == "add" || (op.name == "sub" && i == 0)) && table->base == kNoId;
    const bool compares = op.name == "eq" || op.name == "ne";
    if (!adds && !compares) return false;
    auto shifts = shifts_of(op, *table, table->base == kNoId ? 0 : 1);
    if (!shifts) return false;
    if (op.name != "add")
      for (int64_t& n : *shifts) n = -n;
    const LocalFact counted = *counts;
    const ValueId out = result_of(op);
    const size_t ndim = shape_of(op.walk.graph, values[i]).size(), out_ndim = shape_of(op.walk.graph, out).size();
    if (out_ndim < ndim || static_cast<size_t>(counted.counts_along) >= ndim) return false;
    const size_t missing = out_ndim - ndim, along = static_cast<size_t>(counted.counts_along) + missing;
    const MapId own = op.walk.table.layouts[op.walk.layout_of[values[i]]].dims[along - missing];
    const auto map = shifted(op, own, *shifts);
    if (!map) return false;
    run_by_rule(op.walk, op.node, op.index);
    if (op.walk.crash != kNoId) return true;
    const SlotId slot = op.walk.slot_of[out];
    Spread layout = layout_of(op.walk, slot);
    if (along >= layout.dims.size()) return true;
    layout.dims[along] = *map;
    op.walk.slots[slot].layout = intern(op.walk.table, layout);
    set_slot(op.walk, out, slot);
    if (adds) set_fact(op, {.by_rank = {}, .whole = {}, .counts_along = static_cast<int>(along), .scaled_by = {}});
    return true;
  }
  return false;
}

// ---- rows of a table of which each rank has some ----

std::vector<ElementRun> element_runs(const DimMap& map, size_t rank) {
  std::vector<ElementRun> runs;
  for (const Interval& run : runs_of(map, rank)) runs.push_back({run.begin, run.end});
  return runs;
}

// embedding(index, rows) and gather(x, dim, index), with an index of each rank's own or rows that are cut.
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

// where(condition, rows, 0), where(condition, 0, rows), rows * truth: zeros where the rank has other rows.
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

// dynamic_slice(x, (starts), (sizes)): a rank's own part of what all have.
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

// amax, amin over pieces: the ranks together have it.
bool run_open_maximum(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x || !is_plain_fact(fact_of(op.walk, x->value)) || x->layout->partial != 0) return false;
  const std::vector<bool> along = dims_along(op.call);
  const DimMap* cut = nullptr;
  Spread layout;
  AxisMask kept = 0, open = 0;
  for (size_t dim = 0; dim < along.size(); ++dim) {
    const DimMap& map = op.walk.table.maps.maps[x->layout->dims[dim]];
    if (!along[dim]) {
      kept |= map.axes;
      layout.dims.push_back(x->layout->dims[dim]);
    } else if (!map.is_complete) {
      if (!map.tiles) return false;
      cut = &map;
      open |= map.axes;
    }
  }
  if (cut == nullptr || (kept & open) != 0) return false;
  give_result(op, layout);
  set_fact(op, {.by_rank = {}, .whole = {}, .scaled_by = {}, .open_maximum = open, .is_minimum = op.name == "amin"});
  return true;
}

// ---- everything else, by its rule ----

bool has_name(std::string_view names, std::string_view name) {
  return names.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

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
  if (has_name(" to clone int float detach expand ", op.name)) return along + static_cast<int>(behind - before);
  if (op.name != "unsqueeze") return -1;
  const auto at = static_cast<int>(from_end(number_at(op.call, 1, "dim", 0).traced, behind));
  return at <= along ? along + 1 : along;
}

bool run_same_values(LocalOp& op) {
  const auto x = tensor_at(op.call, 0);
  if (!x || !has_name(kSameValues, op.name) || !keeps_elements(op, *x)) return false;
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
  if (has_name(" add sub where cat ", op.name)) {
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
  if (is_scaled(&fact) && has_name(kScaling, op.name)) return run_scaled(op, fact);
  if (is_scaled(&fact) && has_name(" add sub where cat ", op.name)) return run_scaled(op, fact);
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
