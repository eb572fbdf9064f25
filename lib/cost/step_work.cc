#include "cost/step_work.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cost/count_saved.h"
#include "cost/count_work.h"
#include "cost/layer_path.h"
#include "cost/recompute.h"
#include "ops/op_row.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// The operations and their values, and which of them one kernel computes.
struct WorkCounting {
  const StepSource& source;
  const Run& run;
  const StepTrace& trace;
  const OpGraph& graph;
  ValueRoots roots;             // by value: the value whose memory it shows
  std::vector<uint32_t> depth;  // by root: the number of matmuls, attentions and collectives before it
  std::vector<uint32_t> maker;  // by root: the kernel that computes it; kNoId for leaves and collectives
  std::vector<uint32_t> layer_of_module;
  std::map<std::pair<std::string_view, int64_t>, uint32_t> layer_index;
  std::vector<LayerWork> layers;
  std::vector<std::vector<uint32_t>> layer_ops;  // by layer: indices into StepTrace::ops
  struct OpPlace {
    uint32_t layer = kNoId, kernel = kNoId;  // kernel: into LayerWork::kernels
    bool again = false;
  };
  std::vector<OpPlace> places;  // by operation
};

double bytes_of_value(const WorkCounting& c, uint32_t value) {
  return static_cast<double>(byte_size(dtype_in(c.trace, value), elements_of(shape_of(c.trace, value))));
}

double elements_in(const WorkCounting& c, uint32_t value) {
  return static_cast<double>(elements_of(shape_of(c.trace, value)));
}

std::span<const uint32_t> ins_of(const WorkCounting& c, const TracedOp& op) {
  return std::span(c.trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
}

std::span<const uint32_t> outs_of(const WorkCounting& c, const TracedOp& op) {
  return std::span(c.trace.slots).subspan(op.out_begin, op.out_end - op.out_begin);
}

const OpRow& row_of(const WorkCounting& c, const TracedOp& op) { return op_row(c.graph.nodes[op.node].op); }

bool is_float(const WorkCounting& c, uint32_t value) {
  return dtypes()[dtype_in(c.trace, value)].kind == DTypeKind::Float;
}

// True if the operation moves no memory on a GPU whose kernels read strides: a view, or a copy that only a layout
// needs.
bool is_view(const WorkCounting& c, const TracedOp& op) {
  const auto ins = ins_of(c, op), outs = outs_of(c, op);
  if (ins.empty() || outs.empty()) return false;
  switch (row_of(c, op).memory) {
    case ResultMemory::Regroups:
    case ResultMemory::Permutes:
    case ResultMemory::Expands:
    case ResultMemory::Slices:
    case ResultMemory::Drops:
    case ResultMemory::Alias:
    case ResultMemory::Contiguous:
    case ResultMemory::DropsOut:
      return true;
    case ResultMemory::Converts:
      return dtype_in(c.trace, ins[0]) == dtype_in(c.trace, outs[0]);
    case ResultMemory::Indexes:
      return ins.size() == 1;
    default:
      return false;
  }
}

// Finds the root of a value that a step at a module boundary made: it shows its source, or a collective computed it.
uint32_t root_of(WorkCounting& c, uint32_t value) {
  if (c.roots[value] != kNoId) return c.roots[value];
  const TracedValue& traced = c.trace.values[value];
  c.roots[value] = value;
  if (traced.from == kNoId) return value;
  const uint32_t from = root_of(c, traced.from);
  if (traced.memory == SlotMemory::Same || traced.param != kNone)
    c.roots[value] = from;
  else
    c.depth[value] = c.depth[from] + 1;
  return c.roots[value];
}

uint32_t layer_at(WorkCounting& c, ModuleId module) {
  if (module != kNone && c.layer_of_module[module] != kNoId) return c.layer_of_module[module];
  const LayerPath found = layer_path(module == kNone ? std::string_view{} : c.source.model.modules[module].path);
  const auto [entry, is_new] =
      c.layer_index.try_emplace({found.stack, found.number}, static_cast<uint32_t>(c.layers.size()));
  if (is_new) {
    c.layers.push_back({.stack = found.stack, .number = found.number, .kernels = {}, .calls = {}});
    c.layer_ops.emplace_back();
  }
  if (module != kNone) c.layer_of_module[module] = entry->second;
  return entry->second;
}

// Assigns layers to operations, and roots and depths to values.
void place_ops(WorkCounting& c) {
  std::ignore = layer_at(c, kNone);
  for (uint32_t i = 0; i < c.trace.ops.size(); ++i) {
    const TracedOp& op = c.trace.ops[i];
    if (op.kind != TracedKind::Op) continue;
    const auto ins = ins_of(c, op), outs = outs_of(c, op);
    uint32_t depth = 0;
    for (const uint32_t in : ins) depth = std::max(depth, c.depth[root_of(c, in)]);
    const bool shows = is_view(c, op);
    const bool deepens = row_of(c, op).product != Contraction::None;
    for (const uint32_t out : outs) {
      c.roots[out] = shows ? c.roots[ins[0]] : out;
      if (!shows) c.depth[out] = depth + (deepens ? 1 : 0);
    }
    const uint32_t layer = layer_at(c, op.module);
    c.places[i].layer = layer;
    c.layer_ops[layer].push_back(i);
  }
}

// True if nothing is computed on a GPU that costs time: views, masks, positions.
bool is_free(const WorkCounting& c, const TracedOp& op) {
  const auto outs = outs_of(c, op);
  return outs.empty() || !is_float(c, outs[0]) || is_view(c, op);
}

Kernel matmul_kernel(const WorkCounting& c, const TracedOp& op, const MatmulWork& work, bool in_layer) {
  const auto ins = ins_of(c, op), outs = outs_of(c, op);
  const auto out = shape_of(c.trace, outs[0]);
  Kernel kernel{.kind = KernelKind::Matmul, .dtype = dtype_in(c.trace, outs[0])};
  const double elements = std::max(1.0, elements_in(c, outs[0]));
  kernel.flops = static_cast<double>(work.forward);
  kernel.n = out.empty() ? 1 : static_cast<double>(std::max<int64_t>(out.back(), 1));
  kernel.k = kernel.flops / 2 / elements;
  kernel.m = elements / kernel.n;
  const size_t first = row_of(c, op).product == Contraction::LastOfSecond ? 1 : 0;
  const auto second = ins.size() > first + 1 ? shape_of(c.trace, ins[first + 1]) : std::span<const int64_t>{};
  if (second.size() > 2 && out.size() > 2) {
    kernel.batch = static_cast<double>(elements_of(second.first(second.size() - 2)));
    kernel.m /= std::max(1.0, kernel.batch);
  }
  const auto wants = [&](size_t i) { return i < ins.size() && c.trace.values[ins[i]].requires_grad; };
  kernel.has_first_gradient = wants(first);
  kernel.has_second_gradient = wants(first + 1);
  kernel.has_backward = kernel.has_first_gradient || kernel.has_second_gradient;
  kernel.is_layer_linear =
      in_layer && (second.size() <= 2) && first + 1 < ins.size() && c.trace.values[ins[first + 1]].param != kNone;
  kernel.bytes = static_cast<double>(byte_size(kernel.dtype, 1)) * kernel.batch *
                 (kernel.m * kernel.k + kernel.k * kernel.n + kernel.m * kernel.n);
  return kernel;
}

Kernel attention_kernel(const WorkCounting& c, const TracedOp& op, const MatmulWork& work) {
  const auto ins = ins_of(c, op), outs = outs_of(c, op);
  Kernel kernel{.kind = KernelKind::Attention, .dtype = dtype_in(c.trace, outs[0])};
  kernel.flops = static_cast<double>(work.forward);
  kernel.k = static_cast<double>(shape_of(c.trace, outs[0]).empty() ? 1 : shape_of(c.trace, outs[0]).back());
  kernel.scores = kernel.k > 0 ? kernel.flops / 4 / kernel.k : 0;
  for (size_t i = 0; i < std::min<size_t>(ins.size(), 3); ++i) {
    const double bytes = std::min(bytes_of_value(c, c.roots[ins[i]]), bytes_of_value(c, ins[i]));
    kernel.bytes += bytes;
    if (i > 0) kernel.cached += bytes;
  }
  kernel.bytes += bytes_of_value(c, outs[0]);
  kernel.has_backward = work.backward > 0;
  kernel.backward_bytes = 2 * kernel.bytes;
  return kernel;
}

// Elementwise operations that one kernel computes: all between two matmuls of a layer if a compiler fuses them, those
// of a module if it has hand-written kernels, otherwise one.
using FusionKey = std::tuple<uint32_t, uint32_t, uint32_t>;

FusionKey fusion_key(const WorkCounting& c, uint32_t index) {
  const TracedOp& op = c.trace.ops[index];
  const uint32_t depth = c.depth[c.roots[outs_of(c, op)[0]]], layer = c.places[index].layer;
  switch (c.run.compiled) {
    case Compiled::FullStep:
      return {layer, depth, 0};
    case Compiled::Kernels:
      return {layer, depth, op.module};
    case Compiled::Eager:
      break;
  }
  return {layer, depth, index};
}

// Makes the kernels of all layers, without the bytes of elementwise ones.
void make_kernels(WorkCounting& c) {
  std::map<FusionKey, uint32_t> fused;
  std::vector<uint8_t> is_input(c.trace.values.size(), 0);  // by root, of a linear
  for (uint32_t i = 0; i < c.trace.ops.size(); ++i) {
    const TracedOp& op = c.trace.ops[i];
    if (op.kind != TracedKind::Op || is_free(c, op)) continue;
    std::vector<Kernel>& kernels = c.layers[c.places[i].layer].kernels;
    const MatmulWork work = count_work(c.trace, c.graph, op);
    auto next = static_cast<uint32_t>(kernels.size());
    if (work.forward == 0) {
      const auto [entry, is_new] = fused.try_emplace(fusion_key(c, i), next);
      next = entry->second;
      if (is_new) kernels.push_back({.kind = KernelKind::Elementwise, .dtype = dtype_in(c.trace, outs_of(c, op)[0])});
      kernels[next].has_backward |= wants_gradient(c.trace, op);
    } else {
      const bool is_attention = row_of(c, op).product == Contraction::Attention;
      kernels.push_back(is_attention ? attention_kernel(c, op, work)
                                     : matmul_kernel(c, op, work, c.layers[c.places[i].layer].number >= 0));
      uint8_t& is_seen = is_input[c.roots[ins_of(c, op)[0]]];
      kernels.back().shares_input = kernels.back().is_layer_linear && is_seen != 0;
      is_seen |= static_cast<uint8_t>(kernels.back().is_layer_linear);
    }
    if (kernels[next].name.empty()) {
      kernels[next].op = i;
      kernels[next].module = op.module == kNone ? std::string_view{} : c.source.model.modules[op.module].path;
      kernels[next].name = c.graph.strings[c.graph.nodes[op.node].name];
    }
    kernels[next].again |= c.places[i].again;
    c.places[i].kernel = next;
    for (const uint32_t out : outs_of(c, op)) c.maker[out] = i;
  }
}

Kernel& kernel_of(WorkCounting& c, uint32_t op) { return c.layers[c.places[op].layer].kernels[c.places[op].kernel]; }

bool is_same_kernel(const WorkCounting& c, uint32_t a, uint32_t b) {
  return c.places[a].layer == c.places[b].layer && c.places[a].kernel == c.places[b].kernel;
}

// Bytes that crossing values cost: `value` is read by, or written for, another kernel.
struct CrossingValues {
  std::vector<uint32_t> last_reader;  // by root: the kernel's operation that read it last, for values read twice
  std::vector<uint8_t> is_written;    // by root
};

bool needs_operand_again(const WorkCounting& c, const TracedOp& op) { return !row_of(c, op).saves.empty(); }

// Adds the bytes of one operand of an elementwise kernel.
void add_operand(WorkCounting& c, CrossingValues& crossing, uint32_t index, uint32_t operand) {
  const TracedOp& op = c.trace.ops[index];
  const uint32_t root = c.roots[operand];
  if (c.trace.values[root].param != kNone) {  // of a norm, or the rows of an embedding
    if (c.graph.nodes[op.node].op == OpId::Embedding) kernel_of(c, index).bytes += bytes_of_value(c, outs_of(c, op)[0]);
    return;
  }
  const uint32_t made = c.maker[root];
  if (made != kNoId && is_same_kernel(c, made, index)) return;
  const uint32_t last = crossing.last_reader[root];
  if (last != kNoId && is_same_kernel(c, last, index)) return;
  crossing.last_reader[root] = index;
  Kernel& kernel = kernel_of(c, index);
  const double bytes = bytes_of_value(c, operand);
  kernel.bytes += bytes;
  const bool wants = c.trace.values[operand].requires_grad;
  const bool is_sum = row_of(c, op).linearity == Linearity::Add && c.run.compiled == Compiled::Eager;
  if (!wants || is_sum) return;
  kernel.backward_bytes += bytes + (needs_operand_again(c, op) ? bytes : 0);
}

// Adds the bytes of a value that another kernel reads to the kernel that writes it.
void add_result(WorkCounting& c, CrossingValues& crossing, uint32_t reader, uint32_t operand) {
  const uint32_t root = c.roots[operand], made = c.maker[root];
  if (made == kNoId || is_same_kernel(c, made, reader)) return;
  const bool is_elementwise = kernel_of(c, made).kind == KernelKind::Elementwise;
  const double bytes = bytes_of_value(c, root);
  const bool wants = c.trace.values[root].requires_grad;
  Kernel& kernel = kernel_of(c, made);
  // A second reader's gradient is added to the first's: two reads and a write, unless a compiler fuses the sum.
  if (crossing.is_written[root] != 0) {
    if (wants && is_elementwise && c.run.compiled != Compiled::FullStep) kernel.backward_bytes += 3 * bytes;
    return;
  }
  crossing.is_written[root] = 1;
  if (!is_elementwise) return;
  kernel.bytes += bytes;
  const bool is_sum = row_of(c, c.trace.ops[made]).linearity == Linearity::Add && c.run.compiled == Compiled::Eager;
  if (wants && !is_sum) kernel.backward_bytes += bytes;
}

void add_elementwise_bytes(WorkCounting& c) {
  CrossingValues crossing{.last_reader = std::vector<uint32_t>(c.trace.values.size(), kNoId),
                          .is_written = std::vector<uint8_t>(c.trace.values.size(), 0)};
  for (uint32_t i = 0; i < c.trace.ops.size(); ++i) {
    const TracedOp& op = c.trace.ops[i];
    if (op.kind != TracedKind::Op || c.places[i].kernel == kNoId) continue;
    const bool is_elementwise = kernel_of(c, i).kind == KernelKind::Elementwise;
    for (const uint32_t operand : ins_of(c, op)) {
      if (!is_float(c, operand)) continue;
      add_result(c, crossing, i, operand);
      if (is_elementwise) add_operand(c, crossing, i, operand);
    }
  }
}

// Returns the layer's policy: the run's, or full recomputation of what the plan's `remat` names.
LayerPolicy policy_of(const WorkCounting& c, const LayerWork& layer) {
  if (c.run.checkpointing != Checkpointing::None) return layer_policy(c.run, layer.number);
  const bool is_named = std::any_of(c.source.remat.begin(), c.source.remat.end(), [&](ModuleId id) {
    const LayerPath path = layer_path(c.source.model.modules[id].path);
    return path.stack == layer.stack && path.number == layer.number;
  });
  return {.recomputes = is_named};
}

void mark_recomputed(WorkCounting& c) {
  for (uint32_t layer = 0; layer < c.layers.size(); ++layer) {
    if (c.layers[layer].number < 0) continue;
    const std::vector<uint32_t>& ops = c.layer_ops[layer];
    const auto again = recomputed_ops(c.trace, c.graph, c.roots, ops, policy_of(c, c.layers[layer]));
    for (size_t i = 0; i < ops.size(); ++i) c.places[ops[i]].again = again[i];
  }
}

// True if the backward pass repeats a forward collective of a layer. The last one of a layer is not needed again.
bool repeats_call(const LayerPolicy& policy, const BlockingCall& call, bool is_last) {
  if (!policy.recomputes || policy.only_listed || call.backward || is_last) return false;
  if ((policy.saved & kSaveCollectives) == 0) return true;
  return policy.is_mm_only && call.kind == CollectiveKind::AllGather;
}

// Adds the collectives of axes that are not data axes.
void add_calls(WorkCounting& c) {
  for (const CollectiveCall& call : c.source.calls) {
    const auto& data = c.source.data_axes;
    if (std::find(data.begin(), data.end(), call.axis) != data.end()) continue;
    const int64_t ranks = c.source.mesh.axes[call.axis].size;
    const LayerPath path = layer_path(call.module);
    const auto layer = c.layer_index.find({path.stack, path.number});
    LayerWork& work = c.layers[layer == c.layer_index.end() ? 0 : layer->second];
    work.calls.push_back({.kind = call.kind,
                          .axis = call.axis,
                          .bytes = static_cast<double>(payload_bytes(call, ranks)),
                          .backward = call.backward,
                          .module = call.module,
                          .width = call.shape.empty() ? 1 : static_cast<double>(call.shape.back())});
  }
  for (LayerWork& layer : c.layers) {
    if (layer.number < 0) continue;
    const LayerPolicy policy = policy_of(c, layer);
    bool is_last = true;
    for (size_t i = layer.calls.size(); i-- > 0;) {
      layer.calls[i].again = repeats_call(policy, layer.calls[i], is_last);
      is_last &= layer.calls[i].backward;
    }
  }
}

void add_parameters(WorkCounting& c, StepWork& work) {
  std::map<DType, double> by_dtype;
  for (const StepParameter& parameter : c.source.parameters) {
    LayerWork& layer = c.layers[layer_at(c, parameter.module)];
    (parameter.is_gathered ? layer.gathered : layer.replicated) += parameter.elements;
    by_dtype[parameter.dtype] += parameter.elements;
  }
  const auto most = std::max_element(by_dtype.begin(), by_dtype.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != by_dtype.end()) work.parameter_dtype = most->first;
}

bool is_equal(const Kernel& a, const Kernel& b) {
  return std::tie(a.kind, a.dtype, a.is_layer_linear, a.shares_input, a.batch, a.m, a.n, a.k, a.flops, a.bytes,
                  a.backward_bytes, a.scores, a.has_first_gradient, a.has_second_gradient, a.has_backward, a.again) ==
         std::tie(b.kind, b.dtype, b.is_layer_linear, b.shares_input, b.batch, b.m, b.n, b.k, b.flops, b.bytes,
                  b.backward_bytes, b.scores, b.has_first_gradient, b.has_second_gradient, b.has_backward, b.again);
}

bool is_equal(const BlockingCall& a, const BlockingCall& b) {
  return std::tie(a.kind, a.axis, a.bytes, a.backward, a.again) ==
         std::tie(b.kind, b.axis, b.bytes, b.backward, b.again);
}

bool is_equal(const LayerWork& a, const LayerWork& b) {
  const auto same = [](const auto& x, const auto& y) { return is_equal(x, y); };
  return a.stack == b.stack && a.gathered == b.gathered && a.replicated == b.replicated &&
         std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(), same) &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(), same);
}

// Joins equal layers. The first entry stays what is outside of layers.
void join_layers(WorkCounting& c, StepWork& work) {
  std::vector<LayerWork>& joined = work.layers;
  for (size_t i = 0; i < c.layers.size(); ++i) {
    LayerWork& layer = c.layers[i];
    const auto equal = std::find_if(joined.begin(), joined.end(), [&](const LayerWork& other) {
      return layer.number >= 0 && other.number >= 0 && is_equal(layer, other);
    });
    if (layer.number >= 0)
      work.order.push_back({.stack = layer.stack,
                            .number = layer.number,
                            .work = static_cast<uint32_t>(equal - joined.begin()),
                            .op = c.layer_ops[i].empty() ? kNoId : c.layer_ops[i].front()});
    if (equal == joined.end())
      joined.push_back(std::move(layer));
    else
      ++equal->count;
  }
}

}  // namespace

double updated_elements(std::span<const StepParameter> parameters, int64_t fsdp_ranks) {
  double updated = 0;
  for (const StepParameter& parameter : parameters)
    updated += parameter.elements / static_cast<double>(parameter.is_gathered ? fsdp_ranks : 1);
  return updated;
}

StepWork count_step_work(const StepSource& source, const Run& run) {
  StepWork work;
  const StepTrace& trace = source.trace;
  if (!trace.is_there) return work;
  WorkCounting c{.source = source, .run = run, .trace = trace, .graph = source.model.operations};
  c.roots.assign(trace.values.size(), kNoId);
  c.depth.assign(trace.values.size(), 0);
  c.maker.assign(trace.values.size(), kNoId);
  c.places.resize(trace.ops.size());
  c.layer_of_module.assign(source.model.modules.size(), kNoId);
  place_ops(c);
  mark_recomputed(c);
  make_kernels(c);
  add_elementwise_bytes(c);
  add_calls(c);
  add_parameters(c, work);
  for (const uint32_t output : trace.outputs) work.logits += elements_in(c, output);
  join_layers(c, work);
  work.is_there = true;
  return work;
}

}  // namespace tpplan
