#include "cost/recompute.h"

#include <algorithm>

#include "base/text.h"
#include "cost/count_saved.h"
#include "ops/op_row.h"

namespace tpplan {
namespace {

constexpr uint8_t kSelectiveOps = kSaveEverySecondLinear | kSaveAttention | kSaveCollectives;

std::span<const uint32_t> read_slots(const StepTrace& trace, const TracedOp& op) {
  return std::span(trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
}

std::span<const uint32_t> written_slots(const StepTrace& trace, const TracedOp& op) {
  return std::span(trace.slots).subspan(op.out_begin, op.out_end - op.out_begin);
}

bool is_attention_op(const OpRow& row, OpId op) { return row.product == Contraction::Attention || op == OpId::Softmax; }

bool is_linear_op(OpId op) { return op == OpId::Linear || op == OpId::Addmm; }

// Returns by position in `ops` whether the results are kept.
std::vector<bool> saved_ops(const StepTrace& trace, const OpGraph& graph, std::span<const uint32_t> ops,
                            const LayerPolicy& policy) {
  std::vector<bool> saved(ops.size(), false);
  size_t linears = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    const TracedOp& op = trace.ops[ops[i]];
    const OpId id = graph.nodes[op.node].op;
    bool is_listed = (policy.saved & kSaveAttention) != 0 && is_attention_op(op_row(id), id);
    if (is_linear_op(id) && !(policy.is_mm_only && op.in_end - op.in_begin > 2)) {
      const bool is_odd = linears++ % 2 == 0;
      is_listed |= (policy.saved & kSaveLinear) != 0 || ((policy.saved & kSaveEverySecondLinear) != 0 && is_odd);
    }
    saved[i] = is_listed != policy.only_listed;
  }
  return saved;
}

// Calls `visit` with the values that the backward pass of an operation reads (OpRow::saves).
template <typename Visit>
void each_saved(const StepTrace& trace, const OpGraph& graph, const TracedOp& op, Visit visit) {
  const auto ins = read_slots(trace, op), outs = written_slots(trace, op);
  const OpRow& row = op_row(graph.nodes[op.node].op);
  const auto digit = [](std::string_view word, size_t at) { return static_cast<size_t>(word[at] - '0'); };
  const auto wants = [&](size_t operand) { return operand < ins.size() && trace.values[ins[operand]].requires_grad; };
  if (row.memory == ResultMemory::Unknown) {
    for (const uint32_t value : ins) visit(value);
    return;
  }
  for (const std::string_view word : tpplan::split(row.saves, ' ')) {
    if (word == "p") {
      if (ins.size() > 1 && wants(1)) visit(ins[0]);
      if (ins.size() > 1 && wants(0)) visit(ins[1]);
    } else if (word.size() > 1 && word[0] == 'r') {
      if (digit(word, 1) < outs.size()) visit(outs[digit(word, 1)]);
    } else if (!word.empty() && word[0] >= '0' && word[0] <= '9') {
      const bool is_needed = word.size() < 3 || wants(digit(word, 2)) == (word[1] == '?');
      if (is_needed && digit(word, 0) < ins.size()) visit(ins[digit(word, 0)]);
    } else if (word == "f1" || word == "f2" || word == "s" || word == "a") {
      if (!ins.empty()) visit(ins[0]);
    }
  }
}

}  // namespace

LayerPolicy layer_policy(const Run& run, int64_t number) {
  switch (run.checkpointing) {
    case Checkpointing::None:
      return {};
    case Checkpointing::Full:
      return {.recomputes = true};
    case Checkpointing::Every:
      return {.recomputes = run.every > 0 && (number + 1) % run.every == 0};
    case Checkpointing::Save:
      return {.recomputes = true, .saved = run.operations};
    case Checkpointing::Recompute:
      return {.recomputes = true, .saved = run.operations, .only_listed = true};
    case Checkpointing::SelectiveOps:
      return {.recomputes = true, .saved = kSelectiveOps, .is_mm_only = true};
  }
  return {};
}

std::vector<bool> recomputed_ops(const StepTrace& trace, const OpGraph& graph, const ValueRoots& roots,
                                 std::span<const uint32_t> ops, const LayerPolicy& policy) {
  std::vector<bool> again(ops.size(), false);
  if (!policy.recomputes) return again;
  const std::vector<bool> saved = saved_ops(trace, graph, ops, policy);
  std::vector<uint32_t> needed;  // roots
  const auto is_needed = [&](uint32_t value) {
    return std::find(needed.begin(), needed.end(), roots[value]) != needed.end();
  };
  const auto need = [&](uint32_t value) {
    if (!is_needed(value)) needed.push_back(roots[value]);
  };
  for (size_t i = ops.size(); i-- > 0;) {
    const TracedOp& op = trace.ops[ops[i]];
    const auto ins = read_slots(trace, op), outs = written_slots(trace, op);
    if (wants_gradient(trace, op)) each_saved(trace, graph, op, need);
    const bool is_view = !ins.empty() && !outs.empty() && roots[outs[0]] == roots[ins[0]];
    if (is_view || saved[i] || std::none_of(outs.begin(), outs.end(), is_needed)) continue;
    again[i] = true;
    for (const uint32_t in : ins) need(in);
  }
  return again;
}

}  // namespace tpplan
