#include <algorithm>
#include <utility>

#include "cost/count_saved.h"
#include "cost/replay.h"

namespace tpplan {
namespace {

void release_saved(Replay& r, size_t at) {
  for (const BlockId block : r.saved[at]) release(r.pool, block);
  r.saved[at].clear();
}

// Frees what selective checkpointing saved, but early stop did not need.
void release_cached(Replay& r, const ReplayLayer& layer) {
  for (size_t at = layer.enter; at < layer.exit; ++at) {
    for (const StorageId id : r.events[at].made) release(r.pool, std::exchange(r.cached[id], kNoBlock));
  }
}

// The gradient passes an all_reduce unchanged. All other collectives make a new tensor, and a copy of the larger one.
void collective_backward(Replay& r, const ReplayEvent& event) {
  const uint32_t from = r.in.trace.values[event.at].from;
  GradTensor grad = std::exchange(r.grads[value_with_same_memory(r.in.trace, event.at)], {});
  if (grad.block == kNoBlock) return;
  const uint64_t to = bytes_in(r.in.trace, event.at), size = bytes_in(r.in.trace, from);
  if (to == size) return add_gradient(r, from, std::move(grad));
  set_log_place(r, StepPhase::Backward, event, "collective");
  const BlockId copy = allocate(r.pool, std::max(to, size), TensorUse::Transient);
  const GradTensor made{allocate(r.pool, size, TensorUse::Transient), dense_strides(shape_of(r.in.trace, from))};
  release(r.pool, copy);
  release(r.pool, grad.block);
  add_gradient(r, from, made);
}

void exit_backward(Replay& r, size_t at) {
  gather_for_backward(r, r.events[at].module);
  if (r.layer_at[at] != kNoId) run_layer_again(r, r.layers[r.layer_at[at]]);
}

void enter_backward(Replay& r, size_t at) {
  release_saved(r, at);
  if (r.layer_at[at] != kNoId) release_cached(r, r.layers[r.layer_at[at]]);
  const ModuleId module = r.events[at].module;
  if (module != kNone && r.unit_of[module] != kNoId) reduce_unit(r, r.unit_of[module]);
}

void run_event_backward(Replay& r, size_t at) {
  switch (r.events[at].kind) {
    case ReplayKind::Exit:
      return exit_backward(r, at);
    case ReplayKind::Enter:
      return enter_backward(r, at);
    case ReplayKind::Move:
      return collective_backward(r, r.events[at]);
    case ReplayKind::Op:
      set_log_place(r, StepPhase::Backward, r.events[at]);
      run_derivative(r, at);
      release_saved(r, at);
  }
}

// Adds two gradients out of place, as autograd does.
GradTensor sum(Replay& r, GradTensor a, GradTensor b, std::span<const int64_t> shape, uint64_t bytes, TensorUse as) {
  const StridedShape laid[] = {{shape, a.strides}, {shape, b.strides}};
  const bool have_strides = a.strides.size() == shape.size() && b.strides.size() == shape.size();
  GradTensor made{allocate(r.pool, bytes, as), have_strides ? elementwise_strides(laid, shape) : dense_strides(shape)};
  release(r.pool, a.block);
  release(r.pool, b.block);
  return made;
}

// Collects the gradient of a parameter. Once it is complete, FSDP keeps it until its unit is reduced; otherwise it is
// the parameter's, or is added in place to that of earlier micro-batches.
void add_to_param(Replay& r, ParamId id, uint32_t value, GradTensor grad) {
  ReplayParam& param = r.params[id];
  if (param.grad.block != kNoBlock) {
    const BlockId shard =
        param.has_full_gradient ? allocate(r.pool, bytes_in(r.in.trace, value), TensorUse::Transient) : kNoBlock;
    const TensorUse as = r.pool.blocks[param.grad.block].as;
    grad = sum(r, std::move(param.grad), std::move(grad), shape_of(r.in.trace, value), bytes_in(r.in.trace, value), as);
    release(r.pool, shard);
    param.has_full_gradient = false;
  }
  param.grad = std::move(grad);
  if (param.uses > 0) --param.uses;
  if (param.uses > 0 || param.is_gathered || !r.has_gradients) return;
  release(r.pool, std::exchange(param.grad.block, kNoBlock));
}

}  // namespace

void count_uses(Replay& r) {
  for (ReplayParam& param : r.params) param.uses = 0;
  for (const ReplayEvent& event : r.events) {
    if (event.kind != ReplayKind::Op || !wants_gradient(r.in.trace, r.in.trace.ops[event.at])) continue;
    for (const uint32_t in : operands_of(r, event)) {
      const TracedValue& value = r.in.trace.values[in];
      if (value.param != kNone && value.requires_grad) ++r.params[value.param].uses;
    }
  }
}

void add_gradient(Replay& r, uint32_t value, GradTensor grad) {
  if (grad.block == kNoBlock) return;
  const TracedValue& traced = r.in.trace.values[value];
  if (traced.param != kNone && !r.in.model.params[traced.param].is_buffer)
    return add_to_param(r, traced.param, value, std::move(grad));
  const uint32_t at = value_with_same_memory(r.in.trace, value);
  GradTensor& known = r.grads[at];
  if (known.block == kNoBlock)
    known = std::move(grad);
  else
    known = sum(r, std::move(known), std::move(grad), shape_of(r.in.trace, value), bytes_in(r.in.trace, value),
                TensorUse::Transient);
}

void run_backward(Replay& r) {
  begin_backward(r);
  for (size_t at = r.events.size(); at-- > 0;) {
    const int64_t layer = layer_of_event(r, r.events[at]);
    if (layer >= 0 && r.events[at].kind == ReplayKind::Exit) begin_span(r, StepPhase::Backward, layer);
    run_event_backward(r, at);
    if (layer >= 0 && r.events[at].kind == ReplayKind::Enter) begin_span(r, StepPhase::Backward, -1);
  }
  reduce_unit(r, 0);
  release(r.pool, std::exchange(r.pending_reduce, kNoBlock));
}

}  // namespace tpplan
