#include "cost/count_saved.h"

#include <algorithm>

#include "base/text.h"
#include "cost/node_literals.h"
#include "ops/op_row.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

struct Saving {
  const StepTrace& trace;
  const OpGraph& graph;
  const GraphNode& node;
  const StepMemory& memory;
  std::span<const uint32_t> ins, outs;
  const SavedSink& sink;
};

constexpr uint64_t kStatisticBytes = 4, kMaskBytes = 1, kIndexBytes = 8;

bool has_gradient(const Saving& k, size_t operand) {
  return operand < k.ins.size() && k.trace.values[k.ins[operand]].requires_grad;
}

void save(const Saving& k, uint32_t value) { k.sink.storage(k.memory.storage_of[value]); }

uint64_t rows_of(std::span<const int64_t> shape) {
  return shape.empty() ? 1 : elements_of(shape.first(shape.size() - 1));
}

// Saves an index tensor; a mask is saved as the indices at which it is true, an int64 for each of its dims and selected
// elements.
void save_index(const Saving& k, uint32_t index) {
  const DTypeRow& type = dtypes()[dtype_in(k.trace, index)];
  if (type.kind != DTypeKind::Bool) return save(k, index);
  const auto mask = shape_of(k.trace, index);
  if (k.outs.empty() || mask.empty()) return;
  const auto out = shape_of(k.trace, k.outs[0]);
  const uint64_t positions = out.empty() ? 1 : static_cast<uint64_t>(out[0]);
  for (size_t dim = 0; dim < mask.size(); ++dim) k.sink.extra(positions * kIndexBytes);
}

// Saves the operand of a matmul as the matrix or batch of matrices that matmul makes of it: the operand if that is a
// view.
void save_matrices(const Saving& k, uint32_t value, std::span<const int64_t> batch) {
  const StridedShape operand = strided_shape(k.trace, k.memory, value);
  const size_t ndim = operand.shape.size();
  if (ndim <= 2 && batch.empty()) return save(k, value);
  std::vector<int64_t> matrices(batch.begin(), batch.end());
  if (batch.empty())
    matrices.assign(operand.shape.begin(), operand.shape.end());
  else
    matrices.insert(matrices.end(), operand.shape.end() - 2, operand.shape.end());
  const Strides strides = expanded_strides(operand.shape, operand.strides, matrices);
  int64_t front = 1;
  const size_t matrix = batch.empty() ? 1 : 2;  // trailing dims that are unchanged
  for (size_t dim = 0; dim + matrix < matrices.size(); ++dim) front *= matrices[dim];
  std::vector<int64_t> folded{front};
  folded.insert(folded.end(), matrices.end() - static_cast<std::ptrdiff_t>(matrix), matrices.end());
  if (view_strides(matrices, strides, folded)) return save(k, value);
  k.sink.extra(byte_size(dtype_in(k.trace, value), elements_of(matrices)));
}

// Saves both operands, each if the other requires a gradient. Batch dims are broadcast first (at::matmul, torch 2.13).
void save_matmul(const Saving& k) {
  if (k.ins.size() < 2) return;
  const auto a = shape_of(k.trace, k.ins[0]), b = shape_of(k.trace, k.ins[1]);
  std::vector<int64_t> batch;
  if (a.size() > 2 && b.size() > 2) {
    const size_t dims = std::max(a.size(), b.size()) - 2;
    for (size_t dim = 0; dim < dims; ++dim) {
      const auto size = [&](std::span<const int64_t> shape) {
        const size_t missing = dims - (shape.size() - 2);
        return dim < missing ? int64_t{1} : shape[dim - missing];
      };
      batch.push_back(size(a) == 1 ? size(b) : size(a));
    }
  }
  if (has_gradient(k, 1)) save_matrices(k, k.ins[0], batch);
  if (has_gradient(k, 0)) save_matrices(k, k.ins[1], batch);
}

// at::native::convert_boolean_attn_mask, torch 2.13.
void save_mask(const Saving& k, uint32_t mask) {
  if (dtypes()[dtype_in(k.trace, mask)].kind != DTypeKind::Bool) return save(k, mask);
  k.sink.extra(byte_size(dtype_in(k.trace, k.ins[0]), elements_of(shape_of(k.trace, mask))));
}

// Attention as products (at::native::_scaled_dot_product_attention_math, torch 2.13).
void save_attention(const Saving& k) {
  if (k.ins.size() < 3 || k.outs.empty()) return;
  const auto query = shape_of(k.trace, k.ins[0]), key = shape_of(k.trace, k.ins[1]);
  if (query.size() < 2 || key.size() < 2) return;
  const auto type = dtype_in(k.trace, k.ins[0]);
  k.sink.extra(bytes_in(k.trace, k.ins[0]));
  k.sink.extra(bytes_in(k.trace, k.ins[1]));
  const std::vector<int64_t> batch(query.begin(), query.end() - 2);
  save_matrices(k, k.ins[2], batch);
  k.sink.extra(byte_size(type, rows_of(query) * static_cast<uint64_t>(key[key.size() - 2])));
}

// Handles one word of OpRow::saves.
void save_by_word(const Saving& k, std::string_view word) {
  const size_t unless = word.find('!');
  if (unless != std::string_view::npos && has_gradient(k, static_cast<size_t>(word[unless + 1] - '0'))) return;
  const size_t question = word.find('?');
  if (question != std::string_view::npos && !has_gradient(k, static_cast<size_t>(word[question + 1] - '0'))) return;
  const auto digit = [&](size_t at) { return word.size() > at ? static_cast<size_t>(word[at] - '0') : size_t{0}; };
  switch (word[0]) {
    case 'p':
      return save_matmul(k);
    case 'r':
      if (digit(1) < k.outs.size()) save(k, k.outs[digit(1)]);
      return;
    case 'i':
      for (size_t i = digit(1); i < k.ins.size(); ++i) save_index(k, k.ins[i]);
      return;
    case 'm':
      if (digit(1) < k.ins.size()) save_mask(k, k.ins[digit(1)]);
      return;
    case 'h':
      if (has_gradient(k, digit(1))) save_attention(k);
      return;
    case 'f':
      if (!k.ins.empty()) k.sink.extra(rows_of(shape_of(k.trace, k.ins[0])) * digit(1) * kStatisticBytes);
      return;
    case 'l':
      if (!k.ins.empty()) k.sink.extra(rows_of(shape_of(k.trace, k.ins[0])) * kStatisticBytes);
      return;
    case 'c': {
      const GraphArg* training = find_literal(k.graph, k.node, 5, "training");
      const bool saves_mask = training == nullptr || training->kind != ArgKind::Bool || training->integer != 0;
      const auto shape = k.ins.empty() ? std::span<const int64_t>{} : shape_of(k.trace, k.ins[0]);
      if (shape.size() > 1 && saves_mask) k.sink.extra(static_cast<uint64_t>(shape[1]) * digit(1) * kStatisticBytes);
      return;
    }
    case 'a': {
      const auto out = k.outs.empty() ? std::span<const int64_t>{} : shape_of(k.trace, k.outs[0]);
      const bool is_mean = out.size() > 2 && elements_of(out.subspan(2)) == 1;
      if (!is_mean && !k.ins.empty()) save(k, k.ins[0]);
      return;
    }
    case 'j':
      if (!k.outs.empty()) k.sink.extra(elements_of(shape_of(k.trace, k.outs[0])) * kIndexBytes);
      return;
    case 'b':
      if (!k.outs.empty() && k.memory.storage_of[k.outs[0]] != k.memory.storage_of[k.ins[0]])
        k.sink.extra(elements_of(shape_of(k.trace, k.outs[0])) * kMaskBytes);
      return;
    case 's':
      if (!k.ins.empty()) k.sink.extra(bytes_in(k.trace, k.ins[0]));
      return;
    default:
      if (digit(0) < k.ins.size()) save(k, k.ins[digit(0)]);
  }
}

}  // namespace

bool wants_gradient(const StepTrace& trace, const TracedOp& op) {
  const auto outs = std::span(trace.slots).subspan(op.out_begin, op.out_end - op.out_begin);
  return std::any_of(outs.begin(), outs.end(), [&](uint32_t out) { return trace.values[out].requires_grad; });
}

void count_saved(const StepTrace& trace, const OpGraph& graph, const StepMemory& memory, size_t index,
                 const SavedSink& sink) {
  const TracedOp& op = trace.ops[index];
  if (!wants_gradient(trace, op)) return;
  const Saving k{.trace = trace,
                 .graph = graph,
                 .node = graph.nodes[op.node],
                 .memory = memory,
                 .ins = std::span(trace.slots).subspan(op.in_begin, op.in_end - op.in_begin),
                 .outs = std::span(trace.slots).subspan(op.out_begin, op.out_end - op.out_begin),
                 .sink = sink};
  const OpRow& row = op_row(k.node.op);
  if (row.memory == ResultMemory::Unknown) {
    for (const uint32_t value : k.ins) save(k, value);
    for (const uint32_t value : k.outs) save(k, value);
    return;
  }
  for (const std::string_view word : tpplan::split(row.saves, ' ')) {
    if (!word.empty()) save_by_word(k, word);
  }
}

}  // namespace tpplan
