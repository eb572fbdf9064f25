#include <algorithm>
#include <array>
#include <utility>

#include "cost/node_literals.h"
#include "cost/replay.h"
#include "ops/op_row.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// The backward pass of one operation: the gradients of its results, and those that it makes for its operands, which are
// added after its tensors are freed.
struct OpBackward {
  Replay& r;
  const GraphNode& node;
  const OpRow& row;
  std::span<const uint32_t> ins, outs;
  GradTensor grad;  // of the first result that has one
  uint32_t out = 0;
  std::vector<std::pair<uint32_t, GradTensor>> made;
  std::vector<BlockId> temporaries;
};

bool wants(const OpBackward& b, size_t operand) {
  return operand < b.ins.size() && b.r.in.trace.values[b.ins[operand]].requires_grad;
}

std::span<const int64_t> shape(const OpBackward& b, uint32_t value) { return shape_of(b.r.in.trace, value); }

StridedShape laid(const OpBackward& b, uint32_t value) { return strided_shape(b.r.in.trace, b.r.memory, value); }

bool has_shape(const OpBackward& b, uint32_t x, uint32_t y) { return std::ranges::equal(shape(b, x), shape(b, y)); }

// What a gradient of this value is: that of a parameter, or of an activation.
TensorUse kind_of_gradient(const OpBackward& b, uint32_t value) {
  const ParamId param = b.r.in.trace.values[value].param;
  if (param == kNone || b.r.in.model.params[param].is_buffer) return TensorUse::Transient;
  return b.r.params[param].is_gathered ? TensorUse::FullGradients : TensorUse::Gradients;
}

BlockId new_gradient(OpBackward& b, uint32_t value) {
  return allocate(b.r.pool, bytes_in(b.r.in.trace, value), kind_of_gradient(b, value));
}

void set_gradient(OpBackward& b, uint32_t value, BlockId block, Strides strides) {
  b.made.emplace_back(value, GradTensor{block, std::move(strides)});
}

void set_new_gradient(OpBackward& b, size_t operand) {
  if (!wants(b, operand)) return;
  const uint32_t value = b.ins[operand];
  const StridedShape like_value = laid(b, value);
  const StridedShape operands[] = {like_value};
  set_gradient(b, value, new_gradient(b, value), elementwise_strides(operands, like_value.shape));
}

void set_dense_gradient(OpBackward& b, size_t operand) {
  if (wants(b, operand))
    set_gradient(b, b.ins[operand], new_gradient(b, b.ins[operand]), dense_strides(shape(b, b.ins[operand])));
}

void add_temporary(OpBackward& b, uint32_t like) {
  b.temporaries.push_back(allocate(b.r.pool, bytes_in(b.r.in.trace, like), TensorUse::Transient));
}

// Passes the gradient on with other strides, without a new tensor.
void pass(OpBackward& b, uint32_t value, Strides strides) {
  set_gradient(b, value, hold(b.r.pool, b.grad.block), std::move(strides));
}

// ---- views ----

void regroup_backward(OpBackward& b) {
  if (!wants(b, 0)) return;
  const auto from = shape(b, b.out), to = shape(b, b.ins[0]);
  if (auto strides = view_strides(from, b.grad.strides, to)) return pass(b, b.ins[0], *std::move(strides));
  set_dense_gradient(b, 0);
}

// The strides of the operand's gradient: dim `order[i]` of the operand is dim i of the result. The forward pass
// computed the strides of the result from those of the operand by the same order.
void permute_backward(OpBackward& b) {
  if (!wants(b, 0)) return;
  const StridedShape in = laid(b, b.ins[0]), out = laid(b, b.out);
  const size_t ndim = in.shape.size();
  Strides strides(ndim, 1);
  std::vector<bool> taken(ndim, false);
  for (size_t i = 0; i < ndim && i < b.grad.strides.size(); ++i) {
    for (size_t j = 0; j < ndim; ++j) {
      if (taken[j] || in.strides[j] != out.strides[i] || in.shape[j] != out.shape[i]) continue;
      taken[j] = true;
      strides[j] = b.grad.strides[i];
      break;
    }
  }
  pass(b, b.ins[0], std::move(strides));
}

void expand_backward(OpBackward& b) {
  if (!wants(b, 0)) return;
  if (elements_of(shape(b, b.out)) == elements_of(shape(b, b.ins[0])))
    return pass(b, b.ins[0], dense_strides(shape(b, b.ins[0])));
  set_dense_gradient(b, 0);
}

// True if an index selects all elements: full slices and new axes.
bool selects_all(const OpBackward& b) { return elements_of(shape(b, b.out)) == elements_of(shape(b, b.ins[0])); }

void index_backward(OpBackward& b) {
  if (!wants(b, 0)) return;
  if (selects_all(b)) return regroup_backward(b);
  set_dense_gradient(b, 0);
}

// ---- casts ----

void cast_backward(OpBackward& b) {
  if (!wants(b, 0)) return;
  const bool same = b.r.in.trace.values[b.ins[0]].dtype == b.r.in.trace.values[b.out].dtype;
  if (same) return pass(b, b.ins[0], b.grad.strides);
  const StridedShape operands[] = {{shape(b, b.ins[0]), b.grad.strides}};
  set_gradient(b, b.ins[0], new_gradient(b, b.ins[0]), elementwise_strides(operands, shape(b, b.ins[0])));
}

// ---- matmuls ----

// Makes the gradient of a matrix of rows; copies it if no view has this shape.
void make_rows(OpBackward& b) {
  const auto out_shape = shape(b, b.out);
  if (out_shape.size() <= 2 || b.grad.strides.size() != out_shape.size()) return;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < out_shape.size(); ++i) rows *= out_shape[i];
  const int64_t matrix[] = {rows, out_shape.back()};
  if (view_strides(out_shape, b.grad.strides, matrix)) return;
  const BlockId copy = allocate(b.r.pool, bytes_in(b.r.in.trace, b.out), TensorUse::Transient);
  release(b.r.pool, b.grad.block);
  b.grad = {copy, dense_strides(out_shape)};
}

// The gradient of the weight comes first. A bias's is a sum.
void linear_backward(OpBackward& b) {
  constexpr size_t kInput = 0, kWeight = 1, kBias = 2;
  make_rows(b);
  set_dense_gradient(b, kBias);
  set_dense_gradient(b, kWeight);
  set_dense_gradient(b, kInput);
}

void default_backward(OpBackward& b) {
  for (size_t i = 0; i < b.ins.size(); ++i) set_new_gradient(b, i);
}

// torch shards no embedding_dense_backward over the vocabulary: its result is that of all ranks (torch 2.13).
void embedding_backward(OpBackward& b) {
  constexpr size_t kWeight = 1;
  const size_t at = wants(b, kWeight) ? kWeight : 0;
  if (!wants(b, at)) return;
  const uint32_t value = b.ins[at];
  const ParamId id = b.r.in.trace.values[value].param;
  uint64_t bytes = bytes_in(b.r.in.trace, value);
  if (id != kNone && b.r.params[id].has_full_gradient) {
    const Param& param = b.r.in.model.params[id];
    const auto sizes = std::span(b.r.in.model.sizes).subspan(param.shape_begin, param.ndim);
    bytes = byte_size(dtype_in(b.r.in.trace, value), elements_of(sizes));
  }
  set_gradient(b, value, allocate(b.r.pool, bytes, kind_of_gradient(b, value)), dense_strides(shape(b, value)));
}

// ---- elementwise ----

// Gives an operand a gradient that has the shape of the result: sums it if the operand is broadcast, and converts it.
void set_reduced_gradient(OpBackward& b, size_t operand, BlockId block, Strides strides) {
  const uint32_t value = b.ins[operand];
  const bool same_type = b.r.in.trace.values[value].dtype == b.r.in.trace.values[b.out].dtype;
  if (has_shape(b, value, b.out) && same_type) return set_gradient(b, value, block, std::move(strides));
  b.temporaries.push_back(block);
  set_dense_gradient(b, operand);
}

void add_backward(OpBackward& b) {
  for (size_t i = 0; i < b.ins.size(); ++i) {
    if (!wants(b, i)) continue;
    const bool negates = b.node.op == OpId::Sub && i == 1;
    if (!negates) {
      set_reduced_gradient(b, i, hold(b.r.pool, b.grad.block), b.grad.strides);
      continue;
    }
    set_reduced_gradient(b, i, allocate(b.r.pool, bytes_in(b.r.in.trace, b.out), TensorUse::Transient), b.grad.strides);
  }
}

// Both products exist before either is summed.
void mul_backward(OpBackward& b) {
  std::vector<std::pair<size_t, BlockId>> gradients;
  for (size_t i = 0; i < b.ins.size() && i < 2; ++i) {
    if (!wants(b, i)) continue;
    const bool is_final = has_shape(b, b.ins[i], b.out);
    gradients.emplace_back(i, allocate(b.r.pool, bytes_in(b.r.in.trace, b.out),
                                       is_final ? kind_of_gradient(b, b.ins[i]) : TensorUse::Transient));
  }
  std::vector<StridedShape> operands{{shape(b, b.out), b.grad.strides}};
  const Strides strides = b.grad.strides.size() == shape(b, b.out).size()
                              ? elementwise_strides(operands, shape(b, b.out))
                              : dense_strides(shape(b, b.out));
  for (const auto& gradient : gradients) set_reduced_gradient(b, gradient.first, gradient.second, strides);
}

// grad * (exponent * x ** (exponent - 1)): three tensors.
void power_backward(OpBackward& b) {
  if (!wants(b, 0)) return;
  add_temporary(b, b.ins[0]);
  add_temporary(b, b.ins[0]);
  set_new_gradient(b, 0);
}

void cat_backward(OpBackward& b) {
  for (size_t i = 0; i < b.ins.size(); ++i) {
    if (wants(b, i)) pass(b, b.ins[i], b.grad.strides);  // a slice of the gradient
  }
}

using Rule = void (*)(OpBackward& b);

struct RuleRow {
  OpId op;
  Rule rule;
};

// Operations whose backward pass differs from one new tensor for each operand.
const std::array kRules = {
    RuleRow{OpId::Linear, linear_backward}, RuleRow{OpId::Embedding, embedding_backward},
    RuleRow{OpId::Add, add_backward},       RuleRow{OpId::Sub, add_backward},
    RuleRow{OpId::Mul, mul_backward},       RuleRow{OpId::Pow, power_backward},
    RuleRow{OpId::Cat, cat_backward},
};

Rule rule_of(const OpBackward& b) {
  const auto* row = std::ranges::find(kRules, b.node.op, &RuleRow::op);
  if (row != kRules.end()) return row->rule;
  switch (b.row.memory) {
    case ResultMemory::Regroups:
      return regroup_backward;
    case ResultMemory::Permutes:
      return permute_backward;
    case ResultMemory::Expands:
      return expand_backward;
    case ResultMemory::Indexes:
      return index_backward;
    case ResultMemory::Alias:
    case ResultMemory::Contiguous:
    case ResultMemory::Converts:
    case ResultMemory::DropsOut:
      return cast_backward;
    case ResultMemory::Slices:
    case ResultMemory::Drops:
    case ResultMemory::Unknown:
    case ResultMemory::New:
    case ResultMemory::NewLike:
      break;
  }
  return default_backward;
}

}  // namespace

void run_derivative(Replay& r, size_t at) {
  const ReplayEvent& event = r.events[at];
  const GraphNode& node = r.in.model.operations.nodes[r.in.trace.ops[event.at].node];
  OpBackward b{.r = r,
               .node = node,
               .row = op_row(node.op),
               .ins = operands_of(r, event),
               .outs = results_of(r, event),
               .grad = {},
               .out = 0,
               .made = {},
               .temporaries = {}};
  std::vector<BlockId> others;  // gradients of further results
  for (const uint32_t out : b.outs) {
    GradTensor grad = std::exchange(r.grads[value_with_same_memory(r.in.trace, out)], {});
    if (grad.block == kNoBlock) continue;
    if (b.grad.block == kNoBlock) {
      b.grad = std::move(grad);
      b.out = out;
    } else {
      others.push_back(grad.block);
    }
  }
  if (b.grad.block == kNoBlock) return;
  if (const uint64_t scores = score_elements(r, at); scores > 0) {  // the gradients of the softmax and of its operand
    for (const DType type : {dtype_in(r.in.trace, b.out), dtype_of("float32")})
      b.temporaries.push_back(allocate(r.pool, byte_size(type, scores), TensorUse::Transient));
  }
  rule_of(b)(b);
  for (const BlockId block : b.temporaries) release(r.pool, block);
  for (const BlockId block : others) release(r.pool, block);
  release(r.pool, b.grad.block);
  for (const BlockId block : std::exchange(r.saved[at], {})) release(r.pool, block);
  for (auto& [value, grad] : b.made) add_gradient(r, value, std::move(grad));
}

}  // namespace tpplan
