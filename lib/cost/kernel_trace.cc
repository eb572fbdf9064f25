#include "cost/kernel_trace.h"

#include <algorithm>

#include "cost/step_memory.h"
#include "ops/op_row.h"

namespace tpplan {
namespace {

constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kOperandsWithoutMask = 3;

std::span<const uint32_t> operands_of(const StepTrace& trace, const TracedOp& op) {
  return std::span(trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
}

// Returns for each value the operation that computes it; kNoId for leaves and values of boundaries.
std::vector<uint32_t> makers_of(const StepTrace& trace) {
  std::vector<uint32_t> maker(trace.values.size(), kNoId);
  for (uint32_t i = 0; i < trace.ops.size(); ++i) {
    const TracedOp& op = trace.ops[i];
    if (op.kind != TracedKind::Op) continue;
    for (uint32_t out = op.out_begin; out < op.out_end; ++out) maker[trace.slots[out]] = i;
  }
  return maker;
}

// Returns the value with `heads` heads that a chain of views and copies repeats to `value`, which has more; `value`
// itself if there is no such chain. Dims: batch, heads, sequence, width.
uint32_t before_repeat(const StepTrace& trace, const OpGraph& graph, const std::vector<uint32_t>& maker,
                       uint32_t value) {
  constexpr size_t kDims = 4, kSteps = 4;
  const auto all = shape_of(trace, value);
  if (all.size() != kDims) return value;
  uint32_t from = value;
  bool expands = false;
  for (size_t step = 0; step < kSteps && maker[from] != kNoId; ++step) {
    const TracedOp& op = trace.ops[maker[from]];
    const ResultMemory how = op_row(graph.nodes[op.node].op).memory;
    const bool is_view = how == ResultMemory::Regroups || how == ResultMemory::Expands || how == ResultMemory::Indexes;
    if (!is_view || op.in_begin == op.in_end) return value;
    expands = expands || how == ResultMemory::Expands;
    from = trace.slots[op.in_begin];
    const auto shape = shape_of(trace, from);
    const bool is_grouped = shape.size() == kDims && shape[1] < all[1] &&
                            all[1] % std::max<int64_t>(1, shape[1]) == 0 && shape[0] == all[0] && shape[2] == all[2] &&
                            shape[3] == all[3];
    if (expands && is_grouped) return from;
  }
  return value;
}

// True if flash kernels compute this type.
bool is_half(const StepTrace& trace, uint32_t value) {
  constexpr int kHalfBits = 16;
  return dtypes()[dtype_in(trace, value)].bits == kHalfBits;
}

// Rewrites attention: no mask, and in 16 bits keys and values before they are repeated. The efficient kernel of float32
// does not take grouped keys.
void rewrite_attention(StepTrace& trace, const OpGraph& graph) {
  const std::vector<uint32_t> maker = makers_of(trace);
  for (TracedOp& op : trace.ops) {
    if (op.kind != TracedKind::Op || graph.nodes[op.node].op != OpId::ScaledDotProductAttention) continue;
    if (op.in_end - op.in_begin < kOperandsWithoutMask) continue;
    const uint32_t begin = op.in_begin;
    std::vector<uint32_t> ins(trace.slots.begin() + begin, trace.slots.begin() + begin + kOperandsWithoutMask);
    const bool has_trained_mask = op.in_end - begin > kOperandsWithoutMask &&
                                  trace.values[trace.slots[begin + kOperandsWithoutMask]].requires_grad;
    if (has_trained_mask) continue;
    for (const size_t at : {kKey, kValue}) {
      if (is_half(trace, ins[kQuery])) ins[at] = before_repeat(trace, graph, maker, ins[at]);
    }
    op.in_begin = static_cast<uint32_t>(trace.slots.size());
    trace.slots.insert(trace.slots.end(), ins.begin(), ins.end());
    op.in_end = static_cast<uint32_t>(trace.slots.size());
    const std::vector<uint32_t> outs(trace.slots.begin() + op.out_begin, trace.slots.begin() + op.out_end);
    op.out_begin = op.in_end;
    trace.slots.insert(trace.slots.end(), outs.begin(), outs.end());
    op.out_end = static_cast<uint32_t>(trace.slots.size());
  }
}

void mark(const StepTrace& trace, std::vector<bool>& used, uint32_t value) {
  for (; !used[value]; value = trace.values[value].from) {
    used[value] = true;
    if (trace.values[value].from == kNoId) return;
  }
}

// Removes operations whose results nothing uses.
void drop_unused(StepTrace& trace, const OpGraph& graph) {
  std::vector<bool> used(trace.values.size(), false);
  for (const uint32_t output : trace.outputs) mark(trace, used, output);
  std::vector<bool> stays(trace.ops.size(), true);
  for (size_t i = trace.ops.size(); i-- > 0;) {
    const TracedOp& op = trace.ops[i];
    if (op.kind != TracedKind::Op) continue;
    const bool in_place = graph.nodes[op.node].in_place || graph.nodes[op.node].op == OpId::SetItem;
    stays[i] = in_place;
    for (uint32_t out = op.out_begin; out < op.out_end; ++out) stays[i] = stays[i] || used[trace.slots[out]];
    if (!stays[i]) continue;
    for (const uint32_t in : operands_of(trace, op)) mark(trace, used, in);
  }
  std::vector<TracedOp> ops;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (stays[i]) ops.push_back(trace.ops[i]);
  }
  trace.ops = std::move(ops);
}

}  // namespace

StepTrace kernel_trace(const StepTrace& trace, const OpGraph& graph, const Run& run) {
  StepTrace made = trace;
  made.repeats.clear();
  if (run.attention == AttentionKernel::Flash) rewrite_attention(made, graph);
  drop_unused(made, graph);
  return made;
}

}  // namespace tpplan
