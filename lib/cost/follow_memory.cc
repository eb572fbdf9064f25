#include "cost/follow_memory.h"

#include <algorithm>

#include "cost/node_literals.h"
#include "cost/skip_layers.h"
#include "ops/op_row.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

struct Following {
  const StepTrace& trace;
  const OpGraph& graph;
  StepMemory& memory;
  bool has_flash = false;
};

void set_new_storage(Following& f, uint32_t value, StorageKind kind, Strides strides) {
  f.memory.storage_of[value] = static_cast<StorageId>(f.memory.storages.size());
  f.memory.storages.push_back({kind, bytes_in(f.trace, value)});
  f.memory.strides[value] = std::move(strides);
}

void share(Following& f, uint32_t value, uint32_t with, Strides strides) {
  f.memory.storage_of[value] = f.memory.storage_of[with];
  f.memory.strides[value] = std::move(strides);
}

// Finds the storage of a value that exists before the step or was made at a module boundary.
void resolve(Following& f, uint32_t value) {
  if (f.memory.storage_of[value] != kNoId) return;
  const TracedValue& traced = f.trace.values[value];
  if (traced.memory == SlotMemory::Same && traced.from != kNoId) {
    resolve(f, traced.from);
    const auto shape = shape_of(f.trace, value), from = shape_of(f.trace, traced.from);
    const bool repeats = std::equal(shape.begin(), shape.end(), from.begin(), from.end());
    return share(f, value, traced.from, repeats ? f.memory.strides[traced.from] : dense_strides(shape));
  }
  const bool made = traced.memory == SlotMemory::Copy || traced.memory == SlotMemory::Gathered;
  if (made && traced.from != kNoId) resolve(f, traced.from);
  StorageKind kind = made ? StorageKind::Made : StorageKind::Leaf;
  if (traced.memory == SlotMemory::Gathered)
    kind = traced.param == kNone ? StorageKind::Gathered : StorageKind::Weights;
  set_new_storage(f, value, kind, dense_strides(shape_of(f.trace, value)));
}

size_t dim_of(int64_t dim, size_t ndim) {
  const int64_t found = dim < 0 ? dim + static_cast<int64_t>(ndim) : dim;
  return static_cast<size_t>(std::clamp<int64_t>(found, 0, ndim == 0 ? 0 : static_cast<int64_t>(ndim) - 1));
}

// Returns for each dim of the result its dim in the operand.
std::vector<size_t> dim_order(const OpGraph& graph, const GraphNode& node, size_t ndim) {
  std::vector<size_t> order(ndim);
  for (size_t i = 0; i < ndim; ++i) order[i] = i;
  if (ndim < 2) return order;
  if (node.op == OpId::Permute) {
    const std::vector<int64_t> dims = ints_at(graph, node, 1, "dims");
    for (size_t i = 0; i < std::min(ndim, dims.size()); ++i) order[i] = dim_of(dims[i], ndim);
  } else if (node.op == OpId::Movedim) {
    const size_t from = dim_of(int_at(graph, node, 1, "source").value_or(0), ndim),
                 to = dim_of(int_at(graph, node, 2, "destination").value_or(0), ndim);
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), from);
  } else if (node.op == OpId::NumpyT || node.op == OpId::T) {
    std::reverse(order.begin(), order.end());
  } else if (node.op == OpId::Transpose) {
    std::swap(order[dim_of(int_at(graph, node, 1, "dim0").value_or(0), ndim)],
              order[dim_of(int_at(graph, node, 2, "dim1").value_or(1), ndim)]);
  } else {  // mT, mH, H, adjoint
    std::swap(order[ndim - 1], order[ndim - 2]);
  }
  return order;
}

// Returns the strides of a view by slices, numbers and new axes; nullopt if the index has a tensor.
std::optional<Strides> indexed_strides(const OpGraph& graph, const GraphNode& node, StridedShape in, size_t out_ndim) {
  const GraphArg* index = find_literal(graph, node, 1, "index");
  if (index == nullptr || index->kind != ArgKind::Tuple) return std::nullopt;
  size_t taken = 0;
  bool views = true;
  each_part(graph, *index, [&](const GraphArg& item) {
    taken += item.kind != ArgKind::None && item.kind != ArgKind::Ellipsis;
    views = views && item.kind != ArgKind::Value && item.kind != ArgKind::Tuple && item.kind != ArgKind::Bool;
  });
  if (!views || taken > in.shape.size()) return std::nullopt;
  Strides out;
  size_t dim = 0;
  each_part(graph, *index, [&](const GraphArg& item) {
    if (item.kind == ArgKind::None) {
      out.push_back(1);
    } else if (item.kind == ArgKind::Ellipsis) {
      for (size_t rest = in.shape.size() - taken; rest-- > 0;) out.push_back(in.strides[dim++]);
    } else if (item.kind == ArgKind::Slice) {
      int64_t step = 1, at = 0;
      each_part(graph, item, [&](const GraphArg& part) {
        if (at++ == 2 && part.kind == ArgKind::Int) step = part.integer;
      });
      out.push_back(in.strides[dim++] * step);
    } else {
      ++dim;
    }
  });
  while (dim < in.shape.size()) out.push_back(in.strides[dim++]);
  if (out.size() != out_ndim) return std::nullopt;
  return out;
}

bool same_type(const Following& f, uint32_t a, uint32_t b) {
  return f.trace.values[a].dtype == f.trace.values[b].dtype;
}

// True if the call of dropout(input, p=0.5, training=True) drops elements: not in evaluation.
bool drops(const OpGraph& graph, const GraphNode& node) {
  const GraphArg *p = find_literal(graph, node, 1, "p"), *training = find_literal(graph, node, 2, "training");
  const bool has_zero_rate = p != nullptr && (p->kind == ArgKind::Int || p->kind == ArgKind::Number) && p->number == 0;
  return !has_zero_rate && (training == nullptr || training->kind != ArgKind::Bool || training->integer != 0);
}

// Returns the strides of a result that shares its first operand's memory; nullopt if it has its own.
std::optional<Strides> shared_strides(const Following& f, const GraphNode& node, ResultMemory how, uint32_t in,
                                      uint32_t out) {
  const StridedShape from = strided_shape(f.trace, f.memory, in);
  const auto to = shape_of(f.trace, out);
  const Strides same(from.strides.begin(), from.strides.end());
  switch (how) {
    case ResultMemory::Regroups:
      return view_strides(from.shape, from.strides, to);
    case ResultMemory::Permutes: {
      Strides strides;
      for (const size_t dim : dim_order(f.graph, node, from.shape.size())) strides.push_back(from.strides[dim]);
      return strides;
    }
    case ResultMemory::Expands:
      return expanded_strides(from.shape, from.strides, to);
    case ResultMemory::Slices:
      return same;
    case ResultMemory::Drops: {
      Strides strides = same;
      if (!strides.empty())
        strides.erase(strides.begin() +
                      static_cast<std::ptrdiff_t>(dim_of(int_at(f.graph, node, 1, "dim").value_or(0), strides.size())));
      return strides;
    }
    case ResultMemory::Indexes:
      return indexed_strides(f.graph, node, from, to.size());
    case ResultMemory::Alias:
      return to.size() == same.size() ? same : dense_strides(to);
    case ResultMemory::Contiguous:
      return is_dense(from.shape, from.strides) ? std::optional(same) : std::nullopt;
    case ResultMemory::Converts:
      return same_type(f, in, out) ? std::optional(same) : std::nullopt;
    case ResultMemory::DropsOut:
      return drops(f.graph, node) ? std::nullopt : std::optional(same);
    case ResultMemory::Unknown:
    case ResultMemory::New:
    case ResultMemory::NewLike:
      break;
  }
  return std::nullopt;
}

// True if the result has the dim order of the operands.
bool has_operand_order(ResultMemory how) {
  return how == ResultMemory::NewLike || how == ResultMemory::Converts || how == ResultMemory::DropsOut;
}

// True if attention is computed by separate matmuls, because its mask requires a gradient.
bool is_attention_of_matmuls(const StepTrace& trace, std::span<const uint32_t> ins) {
  constexpr size_t kMask = 3;
  return ins.size() > kMask && trace.values[ins[kMask]].requires_grad;
}

// True if a flash kernel of CUDA computes attention: its result has the dim order of the queries
// (at::native::_flash_attention_forward, torch 2.13).
bool is_flash(const Following& f, uint32_t out) {
  constexpr int kFlashBits = 16;
  return f.has_flash && dtypes()[dtype_in(f.trace, out)].bits == kFlashBits;
}

// Returns the strides of a result with its own memory. Other attention kernels write [batch, sequence, heads, width].
Strides new_strides(const Following& f, const OpRow& row, std::span<const uint32_t> ins, uint32_t out) {
  const auto shape = shape_of(f.trace, out);
  if (row.product == Contraction::Attention && !ins.empty() && is_flash(f, out)) {
    const StridedShape queries[] = {strided_shape(f.trace, f.memory, ins[0])};
    return elementwise_strides(queries, shape);
  }
  if (row.product == Contraction::Attention && shape.size() == 4 && !is_attention_of_matmuls(f.trace, ins)) {
    const int64_t turned[] = {shape[0], shape[2], shape[1], shape[3]};
    Strides strides = dense_strides(turned);
    std::swap(strides[1], strides[2]);
    return strides;
  }
  if (!has_operand_order(row.memory)) return dense_strides(shape);
  std::vector<StridedShape> operands;
  for (const uint32_t in : ins) {
    const StridedShape operand = strided_shape(f.trace, f.memory, in);
    if (operand.shape.size() <= shape.size()) operands.push_back(operand);
  }
  return elementwise_strides(operands, shape);
}

void follow_op(Following& f, const TracedOp& op) {
  const GraphNode& node = f.graph.nodes[op.node];
  const OpRow& row = op_row(node.op);
  const auto ins = std::span(f.trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
  const auto outs = std::span(f.trace.slots).subspan(op.out_begin, op.out_end - op.out_begin);
  for (const uint32_t in : ins) resolve(f, in);
  const bool in_place = node.in_place || node.op == OpId::SetItem;
  for (const uint32_t out : outs) {
    std::optional<Strides> shared;
    if (in_place && !ins.empty())
      shared = f.memory.strides[ins[0]];
    else if (!ins.empty())
      shared = shared_strides(f, node, row.memory, ins[0], out);
    if (shared && shared->size() == shape_of(f.trace, out).size())
      share(f, out, ins[0], std::move(*shared));
    else
      set_new_storage(f, out, StorageKind::Made, new_strides(f, row, ins, out));
  }
}

}  // namespace

StepMemory follow_memory(const StepTrace& trace, const OpGraph& graph, bool each_layer, bool has_flash) {
  StepMemory memory;
  memory.storage_of.assign(trace.values.size(), kNoId);
  memory.strides.resize(trace.values.size());
  Following f{trace, graph, memory, has_flash};
  RepeatedLayers repeats;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (!each_layer) i = skip_repeated_layers(trace, memory, repeats, i);
    if (i == trace.ops.size()) break;
    const TracedOp& op = trace.ops[i];
    const auto ins = std::span(trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
    if (op.kind != TracedKind::Op) {
      for (const uint32_t in : ins) resolve(f, in);
      continue;
    }
    follow_op(f, op);
  }
  for (const uint32_t output : trace.outputs) resolve(f, output);
  return memory;
}

}  // namespace tpplan
