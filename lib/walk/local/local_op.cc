#include "walk/local/local_op.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "walk/operation/finish_op.h"
#include "walk/operation/operations.h"
#include "walk/state/causes.h"
#include "walk/state/node_args.h"
#include "walk/state/slots.h"

namespace tpplan {

const LocalFact* local_fact_of(const Walk& walk, ValueId value) {
  const auto found = walk.memory.facts.find(walk.memory.slot_of[value]);
  return found == walk.memory.facts.end() ? nullptr : &found->second;
}

ValueId value_with_same_integers(const Walk& walk, ValueId value) {
  const auto found = walk.memory.same_integers.find(value);
  return found == walk.memory.same_integers.end() ? value : found->second;
}

ValueId result_of(const LocalOp& op) { return op.walk.in.graph.outs[op.node.out_begin]; }

bool is_as_in_global_program(const LocalFact* fact) {
  if (fact == nullptr) return true;
  if (fact->numerator != fact->denominator || fact->pending_maximum != 0 || fact->kind == FactKind::Rows) return false;
  return fact->kind == FactKind::None || std::all_of(fact->by_rank.begin(), fact->by_rank.end(),
                                                     [&](const RankFunction& f) { return f == fact->global; });
}

bool is_float(const Walk& walk, ValueId value) {
  const std::string_view dtype = walk.in.graph.strings[walk.in.graph.values[value].dtype];
  return dtype.find("float") != std::string_view::npos || dtype.starts_with("complex");
}

namespace {

std::vector<TapeSlot> operands_of(const LocalOp& op) {
  std::vector<TapeSlot> ins;
  for (const ValueId value : input_values(op.walk, op.node))
    ins.push_back({op.walk.memory.slot_of[value], op.walk.memory.layout_of[value]});
  return ins;
}

}  // namespace

void mark_unknown(LocalOp& op) {
  MemoEntry entry{.outs = {}, .segments = {}, .unknown = true, .crash = {}, .wrong = {}};
  for (uint32_t i = op.node.out_begin; i < op.node.out_end; ++i)
    entry.outs.push_back(
        op.walk.memory.tables.replicated_by_shape[op.walk.in.graph.values[op.walk.in.graph.outs[i]].shape]);
  finish_op(op.walk, op.node, op.index, entry, operands_of(op));
}

void set_result(LocalOp& op, const ValueLayout& layout, Code code, std::string wrong) {
  if (op.node.out_end - op.node.out_begin != 1 || layout.dims.size() != out_shape(op.call).size())
    return mark_unknown(op);
  MemoEntry entry{.outs = {}, .segments = {}, .crash = {}, .wrong = std::move(wrong), .code = code};
  ValueLayout out = layout;
  out.wrong = out.is_dtensor = out.local_view = false;
  out.declared.clear();
  out.declared_shape.clear();
  entry.outs.push_back(intern(op.walk.memory.table, out));
  finish_op(op.walk, op.node, op.index, entry, operands_of(op));
}

void set_fact(LocalOp& op, LocalFact fact) {
  if (op.walk.out.crash == kNoId) op.walk.memory.facts[op.walk.memory.slot_of[result_of(op)]] = std::move(fact);
}

void run_as_wrong(LocalOp& op, Code code, const std::string& reason) {
  run_by_rule(op.walk, op.node, op.index);
  if (op.walk.out.crash != kNoId) return;
  for (uint32_t i = op.node.out_begin; i < op.node.out_end; ++i) {
    const ValueId value = op.walk.in.graph.outs[i];
    const SlotId slot = op.walk.memory.slot_of[value];
    if (!layout_of(op.walk, slot).wrong)
      mark_slot_wrong(op.walk, slot, code, reason, op.walk.memory.slots[slot].origin, kNoRule, std::string(op.name));
    set_slot(op.walk, value, slot);
  }
}

std::string_view text_of(const LocalOp& op, const GraphArg& arg) {
  return arg.kind == ArgKind::Text ? op.walk.in.graph.texts[arg.id] : std::string_view{};
}

size_t walked_axis(const LocalOp& op, std::string_view name) {
  const AxisId axis = find_axis(op.walk.in.plan.mesh, name);
  const auto at = std::find(op.walk.in.axes.begin(), op.walk.in.axes.end(), axis);
  return at == op.walk.in.axes.end() ? kNoAxisHere : static_cast<size_t>(at - op.walk.in.axes.begin());
}

std::vector<size_t> axes_at(const LocalOp& op, size_t position) {
  std::vector<size_t> axes;
  uint32_t at = 0;
  const GraphArg* arg = find_arg(op.call, position, {}, &at);
  if (arg == nullptr) return axes;
  for (uint32_t i = at; i < arg->end; ++i) {
    const std::string_view name = text_of(op, op.walk.in.graph.args[i]);
    const size_t axis = name.empty() ? kNoAxisHere : walked_axis(op, name);
    if (axis != kNoAxisHere) axes.push_back(axis);
  }
  return axes;
}

bool is_scaled(const LocalFact* fact) { return fact != nullptr && fact->numerator != fact->denominator; }

void scale_fact(LocalFact& fact, int64_t numerator, int64_t denominator) {
  int64_t n = 0, d = 0;
  if (__builtin_mul_overflow(fact.numerator, numerator, &n) ||
      __builtin_mul_overflow(fact.denominator, denominator, &d))
    n = 0;
  const int64_t common = n == 0 ? 1 : std::gcd(n, d);
  const bool far = n == 0 || n / common > kFarInteger || d / common > kFarInteger;
  fact.numerator = far ? 0 : n / common;
  fact.denominator = far ? 1 : d / common;
}

namespace {

std::string scale_text(const LocalFact& fact) {
  return fact.denominator == 1 ? fmt::format("{}", fact.numerator)
                               : fmt::format("{}/{}", fact.numerator, fact.denominator);
}

}  // namespace

std::string error_of(const LocalOp& op, const LocalFact& fact) {
  if (is_scaled(&fact))
    return fmt::format("{} of a value that is {} times the global value: {}", op.name, scale_text(fact),
                       fact.scaled_by);
  if (fact.pending_maximum != 0)
    return fmt::format("{} of the {} over only the local shard", op.name, fact.is_minimum ? "minimum" : "maximum");
  return fmt::format("{} of rows that belong to another rank", op.name);
}

Code code_of(const LocalFact& fact) {
  return is_scaled(&fact) ? Code::ReplicatedValueReduced : Code::ReductionOverShard;
}

}  // namespace tpplan
