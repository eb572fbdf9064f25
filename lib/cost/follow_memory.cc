#include "cost/follow_memory.h"

#include <algorithm>

#include "cost/leave_out.h"
#include "cost/node_literals.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

struct Following {
  const StepTrace& trace;
  const OpGraph& graph;
  StepMemory& memory;
};

void give_own(Following& f, uint32_t value, StorageKind kind, Strides strides) {
  f.memory.storage_of[value] = static_cast<StorageId>(f.memory.storages.size());
  f.memory.storages.push_back({kind, bytes_in(f.trace, value)});
  f.memory.strides[value] = std::move(strides);
}

void share(Following& f, uint32_t value, uint32_t with, Strides strides) {
  f.memory.storage_of[value] = f.memory.storage_of[with];
  f.memory.strides[value] = std::move(strides);
}

// What stands there before the step, and what steps at boundaries made of a value.
void resolve(Following& f, uint32_t value) {
  if (f.memory.storage_of[value] != kNoId) return;
  const TracedValue& traced = f.trace.values[value];
  if (traced.memory == SlotMemory::Same && traced.from != kNoId) {
    resolve(f, traced.from);
    const auto shape = shape_of(f.trace, value), from = shape_of(f.trace, traced.from);
    const bool alike = std::equal(shape.begin(), shape.end(), from.begin(), from.end());
    return share(f, value, traced.from, alike ? f.memory.strides[traced.from] : dense_strides(shape));
  }
  const bool made = traced.memory == SlotMemory::Copy || traced.memory == SlotMemory::Gathered;
  StorageKind kind = made ? StorageKind::Made : StorageKind::Leaf;
  if (traced.memory == SlotMemory::Gathered)
    kind = traced.param == kNone ? StorageKind::Gathered : StorageKind::Weights;
  give_own(f, value, kind, dense_strides(shape_of(f.trace, value)));
}

size_t dim_of(int64_t dim, size_t ndim) {
  const int64_t found = dim < 0 ? dim + static_cast<int64_t>(ndim) : dim;
  return static_cast<size_t>(std::clamp<int64_t>(found, 0, ndim == 0 ? 0 : static_cast<int64_t>(ndim) - 1));
}

// The operand's dim that each dim of the result is.
std::vector<size_t> dim_order(const OpGraph& graph, const GraphNode& node, size_t ndim) {
  const std::string_view name = graph.strings[node.name];
  std::vector<size_t> order(ndim);
  for (size_t i = 0; i < ndim; ++i) order[i] = i;
  if (ndim < 2) return order;
  if (name == "permute") {
    const std::vector<int64_t> dims = ints_at(graph, node, 1, "dims");
    for (size_t i = 0; i < std::min(ndim, dims.size()); ++i) order[i] = dim_of(dims[i], ndim);
  } else if (name == "movedim" || name == "moveaxis") {
    const size_t from = dim_of(int_at(graph, node, 1, "source").value_or(0), ndim),
                 to = dim_of(int_at(graph, node, 2, "destination").value_or(0), ndim);
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), from);
  } else if (name == "T" || name == "t") {
    std::reverse(order.begin(), order.end());
  } else if (name == "mT" || name == "mH" || name == "H" || name == "adjoint") {
    std::swap(order[ndim - 1], order[ndim - 2]);
  } else {
    std::swap(order[dim_of(int_at(graph, node, 1, "dim0").value_or(0), ndim)],
              order[dim_of(int_at(graph, node, 2, "dim1").value_or(1), ndim)]);
  }
  return order;
}

// Of a view by slices, numbers and new axes; nothing where a tensor takes part.
std::optional<Strides> indexed_strides(const OpGraph& graph, const GraphNode& node, Laid in, size_t out_ndim) {
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

// dropout(input, p=0.5, training=True): nothing is dropped in evaluation.
bool drops(const OpGraph& graph, const GraphNode& node) {
  const GraphArg *p = find_literal(graph, node, 1, "p"), *training = find_literal(graph, node, 2, "training");
  const bool none = p != nullptr && (p->kind == ArgKind::Int || p->kind == ArgKind::Number) && p->number == 0;
  return !none && (training == nullptr || training->kind != ArgKind::Bool || training->integer != 0);
}

// The strides of a result that shares its first operand's memory; nothing where it has its own.
std::optional<Strides> shared_strides(const Following& f, const GraphNode& node, ResultMemory how, uint32_t in,
                                      uint32_t out) {
  const Laid from = laid_of(f.trace, f.memory, in);
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
    case ResultMemory::Cuts:
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
    case ResultMemory::New:
    case ResultMemory::NewLike:
      break;
  }
  return std::nullopt;
}

bool is_elementwise(ResultMemory how) {
  return how == ResultMemory::NewLike || how == ResultMemory::Converts || how == ResultMemory::DropsOut;
}

// Attention lays its result out as [batch, sequence, heads, width], unless it is made of products.
Strides own_strides(const Following& f, const OpEffects* effects, std::span<const uint32_t> ins, uint32_t out) {
  const auto shape = shape_of(f.trace, out);
  if (effects == nullptr) return dense_strides(shape);
  if (effects->product == Contraction::Attention && shape.size() == 4 &&
      !is_attention_of_products(*effects, f.trace, ins)) {
    const int64_t turned[] = {shape[0], shape[2], shape[1], shape[3]};
    Strides strides = dense_strides(turned);
    std::swap(strides[1], strides[2]);
    return strides;
  }
  if (!is_elementwise(effects->memory)) return dense_strides(shape);
  std::vector<Laid> operands;
  for (const uint32_t in : ins) {
    const Laid operand = laid_of(f.trace, f.memory, in);
    if (operand.shape.size() <= shape.size()) operands.push_back(operand);
  }
  return elementwise_strides(operands, shape);
}

void follow_op(Following& f, const TracedOp& op, const OpEffects* effects) {
  const GraphNode& node = f.graph.nodes[op.node];
  const auto ins = std::span(f.trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
  const auto outs = std::span(f.trace.slots).subspan(op.out_begin, op.out_end - op.out_begin);
  for (const uint32_t in : ins) resolve(f, in);
  const bool in_place = writes_in_place(f.graph.strings[node.name]);
  for (const uint32_t out : outs) {
    std::optional<Strides> shared;
    if (in_place && !ins.empty())
      shared = f.memory.strides[ins[0]];
    else if (effects != nullptr && !ins.empty())
      shared = shared_strides(f, node, effects->memory, ins[0], out);
    if (shared && shared->size() == shape_of(f.trace, out).size())
      share(f, out, ins[0], std::move(*shared));
    else
      give_own(f, out, StorageKind::Made, own_strides(f, effects, ins, out));
  }
}

}  // namespace

DType dtype_in(const StepTrace& trace, uint32_t value) { return dtype_of(trace.values[value].dtype); }

uint64_t bytes_in(const StepTrace& trace, uint32_t value) {
  return byte_size(dtype_in(trace, value), elements_of(shape_of(trace, value)));
}

Laid laid_of(const StepTrace& trace, const StepMemory& memory, uint32_t value) {
  return {shape_of(trace, value), memory.strides[value]};
}

StepMemory follow_memory(const StepTrace& trace, const OpGraph& graph, bool each_layer) {
  StepMemory memory;
  memory.storage_of.assign(trace.values.size(), kNoId);
  memory.strides.resize(trace.values.size());
  memory.effects.assign(trace.ops.size(), nullptr);
  Following f{trace, graph, memory};
  std::vector<const OpEffects*> by_name(graph.strings.size(), nullptr);
  std::vector<uint8_t> looked_up(graph.strings.size(), 0);
  AlikeLayers alike;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (!each_layer) i = leave_out(trace, memory, alike, i);
    if (i == trace.ops.size()) break;
    const TracedOp& op = trace.ops[i];
    const auto ins = std::span(trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
    if (op.kind != TracedKind::Op) {
      for (const uint32_t in : ins) resolve(f, in);
      continue;
    }
    const StringId name = graph.nodes[op.node].name;
    if (looked_up[name] == 0) {
      by_name[name] = find_effects(graph.strings[name]);
      looked_up[name] = 1;
    }
    memory.effects[i] = by_name[name];
    follow_op(f, op, by_name[name]);
  }
  for (const uint32_t output : trace.outputs) resolve(f, output);
  return memory;
}

}  // namespace tpplan
