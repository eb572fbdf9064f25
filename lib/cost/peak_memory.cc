#include "cost/peak_memory.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "cost/follow_memory.h"
#include "cost/kernel_trace.h"
#include "cost/replay.h"
#include "sharding/tensor_size.h"
#include "topology/read_run.h"

namespace tpplan {
namespace {

constexpr double kBits = 8;
constexpr uint64_t kSmallSegment = uint64_t{2} << 20, kLargeSegment = uint64_t{20} << 20;
constexpr uint64_t kFragmentation = 8;  // of what is alive, one part

// Of an element.
double bytes_of(DType dtype) { return dtypes()[dtype].bits / kBits; }

// The dtype of most parameters' elements.
DType model_dtype(const ModelGraph& model) {
  for (const Param& param : model.params) {
    if (!param.is_buffer && is_trainable(param.dtype)) return param.dtype;
  }
  return dtype_of("float32");
}

bool has_fsdp(const Replay& r) { return r.ranks > 1; }

bool keeps_float32_shards(const Replay& r, DType dtype) { return keeps_float32_shard(r.in.recipe, has_fsdp(r), dtype); }

void hold_forever(Replay& r, uint64_t bytes, TensorUse as) {
  if (bytes > 0) std::ignore = allocate(r.pool, bytes, as);
}

// Holds `each` bytes for each of the rank's elements of a parameter.
void hold_shard(Replay& r, ParamId id, double each, TensorUse as) {
  if (each > 0 && r.params[id].shard_elements > 0) std::ignore = allocate_shard(r, {id, each}, as);
}

uint64_t data_ranks_without_fsdp(const Replay& r) {
  uint64_t ranks = 1;
  for (const AxisId axis : data_axes_of(r.in.plan)) {
    if (!r.in.plan.fsdp || axis != r.in.plan.fsdp->axis) ranks *= static_cast<uint64_t>(r.in.plan.mesh.axes[axis].size);
  }
  return ranks;
}

// True if a parameter's gradient between steps is of all ranks' shards: FSDP does not reduce it, and no tie adds it to
// a local gradient.
bool holds_full_gradient(const Replay& r, ParamId id) {
  const ReplayParam& param = r.params[id];
  return param.has_full_gradient && !param.is_gathered && param.uses <= 1;
}

void hold_gradient(Replay& r, ParamId id, double each, TensorUse as) {
  if (!holds_full_gradient(r, id)) return hold_shard(r, id, each, as);
  const uint64_t elements = elements_of(shape_of(r.in.model, r.in.model.params[id]));
  hold_forever(r, shard_bytes(elements, each), as);
}

// The bytes of what training adds to each element of a parameter.
struct ElementBytes {
  double gradient = 0, master = 0, state = 0;
};

ElementBytes element_bytes(const Replay& r, DType dtype) {
  const TrainedBytes bytes = trained_bytes(r.in.recipe, dtype, 1);
  return {static_cast<double>(bytes.gradient), static_cast<double>(bytes.master), static_cast<double>(bytes.state)};
}

// Everything that exists before the step: parameters, states, tokens, buffers, gradients of earlier micro-batches.
void hold_base(Replay& r) {
  const bool is_ddp = !has_fsdp(r) && data_ranks_without_fsdp(r) > 1;  // with FSDP its shards are reduced in place
  for (ParamId id = 0; id < r.params.size(); ++id) {
    const Param& param = r.in.model.params[id];
    const ReplayParam& held_param = r.params[id];
    if (!held_param.is_used) continue;
    const bool is_wide = keeps_float32_shards(r, param.dtype);
    const DType dtype = is_wide ? dtype_of("float32") : param.dtype;
    hold_shard(r, id, bytes_of(dtype), TensorUse::Parameters);
    const ElementBytes bytes = element_bytes(r, dtype);
    hold_shard(r, id, bytes.master, TensorUse::Master);
    if (r.has_gradients) hold_gradient(r, id, is_wide ? bytes_of(dtype) : bytes.gradient, TensorUse::Gradients);
    if (is_ddp && is_trainable(param.dtype)) hold_shard(r, id, bytes_of(param.dtype), TensorUse::Buckets);
  }
  for (const ManifestParam& buffer : r.in.manifest.buffers)
    hold_forever(r, global_bytes(layout_of(r.in.manifest, buffer)), TensorUse::Buffers);
}

// The optimizer makes its states in the first step.
void hold_states(Replay& r) {
  for (ParamId id = 0; id < r.params.size(); ++id) {
    if (!r.params[id].is_used) continue;
    const DType model_dtype = r.in.model.params[id].dtype;
    const DType dtype = keeps_float32_shards(r, model_dtype) ? dtype_of("float32") : model_dtype;
    const double each = element_bytes(r, dtype).state;
    for (int i = 0; i < r.in.recipe.states; ++i) {
      if (r.in.recipe.name == "sgd_momentum")  // its momentum is a copy of the first gradient
        hold_gradient(r, id, each, TensorUse::Optimizer);
      else
        hold_shard(r, id, each, TensorUse::Optimizer);
    }
  }
}

// Tokens, and targets of the same size.
void hold_inputs(Replay& r) {
  std::vector<bool> seen(r.in.trace.values.size(), false);
  for (const TracedOp& op : r.in.trace.ops) {
    for (uint32_t i = op.in_begin; i < op.in_end; ++i) {
      const uint32_t value = value_with_same_memory(r.in.trace, r.in.trace.slots[i]);
      const TracedValue& traced = r.in.trace.values[value];
      if (seen[value] || !traced.is_leaf || traced.param != kNone || traced.requires_grad) continue;
      seen[value] = true;
      if (shape_of(r.in.trace, value).size() < 2) continue;
      hold_forever(r, bytes_in(r.in.trace, value), TensorUse::Inputs);
      hold_forever(r, bytes_in(r.in.trace, value), TensorUse::Inputs);
    }
  }
}

// A gradient of an embedding is that of all ranks if torch's DTensor shards the vocabulary.
void find_full_gradients(Replay& r) {
  for (const TracedOp& op : r.in.trace.ops) {
    if (op.kind != TracedKind::Op || r.in.model.operations.nodes[op.node].op != OpId::Embedding) continue;
    for (uint32_t i = op.in_begin; i < op.in_end; ++i) {
      const ParamId id = r.in.trace.values[r.in.trace.slots[i]].param;
      if (id == kNone || r.in.model.params[id].ndim < 2) continue;
      const int64_t rows = r.in.model.sizes[r.in.model.params[id].shape_begin];
      const auto local = shape_of(r.in.trace, r.in.trace.slots[i]);
      r.params[id].has_full_gradient = !local.empty() && local[0] < rows;
    }
  }
}

// The optimizer: foreach AdamW makes the square roots of its second moments at once (torch.optim._multi_tensor_adamw).
void run_optimizer(Replay& r) {
  r.place = {.phase = StepPhase::Optimizer, .operation = r.in.recipe.name, .module = {}};
  for (ParamId id = 0; id < r.params.size(); ++id) {  // DTensor shards the gradients that are whole
    if (holds_full_gradient(r, id))
      release(r.pool, allocate_shard(r, {id, bytes_of(r.in.model.params[id].dtype)}, TensorUse::Temporary));
  }
  if (r.in.run.optimizer != OptimizerKernel::Foreach || !r.in.recipe.name.starts_with("adamw")) return;
  std::vector<BlockId> roots;
  for (ParamId id = 0; id < r.params.size(); ++id) {
    if (!r.params[id].is_used) continue;
    const DType model_dtype = r.in.model.params[id].dtype;
    const DType dtype = keeps_float32_shards(r, model_dtype) ? dtype_of("float32") : model_dtype;
    const double each = element_bytes(r, dtype).state;
    if (each > 0 && r.params[id].shard_elements > 0)
      roots.push_back(allocate_shard(r, {id, each}, TensorUse::Temporary));
  }
  for (const BlockId block : roots) release(r.pool, block);
}

void set_types(Replay& r) {
  const DType model = model_dtype(r.in.model);
  const Run& run = r.in.run;
  if (r.in.plan.fsdp && r.in.plan.fsdp->axis != kNoAxis) r.ranks = r.in.plan.mesh.axes[r.in.plan.fsdp->axis].size;
  r.gather_bytes = bytes_of(run.gather_dtype.value_or(model));
  r.reduce_bytes = bytes_of(run.reduce_dtype.value_or(dtype_of("float32")));
  r.shard_bytes = keeps_float32_shards(r, model) ? bytes_of(dtype_of("float32")) : bytes_of(model);
  const bool sums_in_float32 = r.in.recipe.gradient == ElementDtype::Float32 && !has_fsdp(r);
  r.has_gradients = run.accumulation > 1 || sums_in_float32;
}

std::string formula_of(const Replay& r, TensorUse as) {
  const auto elements = [&](uint64_t ReplayParam::*part, bool gathered_only) {
    uint64_t sum = 0;
    for (const ReplayParam& param : r.params)
      sum += param.is_used && (!gathered_only || param.is_gathered) ? param.*part : 0;
    return sum;
  };
  switch (as) {
    case TensorUse::Parameters:
      return fmt::format("{} elements of the rank", elements(&ReplayParam::shard_elements, false));
    case TensorUse::Master:
    case TensorUse::Optimizer:
      return fmt::format("recipe {}, {} elements of the rank", r.in.recipe.name,
                         elements(&ReplayParam::shard_elements, false));
    case TensorUse::Gradients:
      return r.has_gradients ? "of the rank, with those of earlier micro-batches" : "of the rank";
    case TensorUse::Buckets:
      return "flat buckets of DDP, besides the gradients";
    case TensorUse::Inputs:
      return "tokens and targets";
    case TensorUse::Buffers:
      return "replicated";
    case TensorUse::Gathered:
      return fmt::format("root {} + layers that are gathered then", human_bytes(r.units[0].gathered));
    case TensorUse::AllGather:
      return "of the next unit, before its weights are copied";
    case TensorUse::ReduceScatter:
      return "of the unit before, until the next one is reduced";
    case TensorUse::FullGradients:
      return "of the unit, before they are reduced";
    case TensorUse::Saved:
      return fmt::format("checkpointing {}", run_value(r.in.run, "checkpointing"));
    case TensorUse::Loss:
      return fmt::format("loss {} in {}", run_value(r.in.run, "loss"), run_value(r.in.run, "loss_dtype"));
    case TensorUse::Transient:
      return "of the operation, and of values whose gradient is not complete";
    case TensorUse::Temporary:
      return "square roots of the second moments (foreach)";
  }
  return {};
}

TrainingMemory result_of(const Replay& r) {
  TrainingMemory memory{.recipe = &r.in.recipe, .terms = {}, .total = r.pool.peak, .has_step = true};
  memory.overflow = r.pool.overflow;
  memory.peak = {.reserved = reserved_bytes_for(r.pool.peak),
                 .phase = std::string(to_text(r.pool.peak_place.phase)),
                 .operation = std::string(r.pool.peak_place.operation),
                 .module = std::string(r.pool.peak_place.module)};
  for (size_t i = 0; i < kTensorUses; ++i) {
    const auto use = static_cast<TensorUse>(i);
    if (r.pool.at_peak[i] > 0)
      memory.terms.push_back({std::string(to_text(use)), r.pool.at_peak[i], formula_of(r, use)});
  }
  std::stable_sort(memory.terms.begin(), memory.terms.end(),
                   [](const MemoryTerm& a, const MemoryTerm& b) { return a.bytes > b.bytes; });
  return memory;
}

// zero_grad() frees the gradients.
void end_step(Replay& r) {
  for (ReplayParam& param : r.params) release(r.pool, std::exchange(param.grad.block, kNoBlock));
  for (const BlockId block : std::exchange(r.shards, {})) release(r.pool, block);
}

void run_step(Replay& r) {
  find_full_gradients(r);
  count_uses(r);
  gather_root(r);
  run_forward(r, 0, r.events.size(), false);
  end_forward(r);
  run_loss(r);
  run_backward(r);
  begin_span(r, StepPhase::Optimizer, -1);
  run_optimizer(r);
  begin_span(r, StepPhase::Optimizer, -1);
  end_step(r);
}

}  // namespace

// What the caching allocator holds: the peak and an eighth for fragmentation (published steps hold 14 % more in the
// median), in segments of 2 MiB, which it takes from CUDA for small tensors, and for each of up to 10 MiB in 20 MiB
// (c10/cuda/CUDACachingAllocator.cpp, torch 2.13).
uint64_t reserved_bytes_for(uint64_t active) {
  if (active > kMostInTotal / 2) return active;  // an overflow is reported elsewhere
  const uint64_t held = active + active / kFragmentation;
  const uint64_t step = held > kLargeSegment ? kLargeSegment : kSmallSegment;
  return (held + step - 1) / step * step;
}

uint64_t active_bytes_within(uint64_t reserved) {
  const uint64_t step = reserved >= kLargeSegment ? kLargeSegment : kSmallSegment;
  const uint64_t held = reserved / step * step;
  uint64_t active = held / (kFragmentation + 1) * kFragmentation;
  while (active + 1 + (active + 1) / kFragmentation <= held) ++active;
  return active;
}

TrainingMemory measure_peak(const StepTrace& trace, const ModelGraph& model, const TpPlan& plan,
                            const Manifest& manifest, const Run& run, std::span<const ModuleId> units,
                            std::span<const ModuleId> remat, MemoryLog* log) {
  const Recipe* recipe = find_recipe(run.recipe);
  if (!trace.is_there || recipe == nullptr) return {};
  const StepTrace kernels = kernel_trace(trace, model.operations, run);
  const ReplayInputs in{kernels, model, plan, manifest, run, *recipe, units, remat};
  Replay r{.in = in, .memory = follow_memory(kernels, model.operations, true, run.attention == AttentionKernel::Flash)};
  r.pool.place = &r.place;
  set_types(r);
  build_units(r);
  build_events(r);
  find_full_gradients(r);
  count_uses(r);
  if (log != nullptr) r.pool.log = &r.log;
  hold_base(r);
  hold_inputs(r);
  hold_states(r);
  begin_span(r, StepPhase::Forward, -1);
  run_step(r);
  if (log != nullptr) *log = std::move(r.log);
  return result_of(r);
}

}  // namespace tpplan
