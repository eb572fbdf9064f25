#include <algorithm>
#include <utility>

#include "cost/replay.h"
#include "sharding/tensor_size.h"

// FSDP2's schedule (torch 2.13, torch/distributed/fsdp/_fully_shard): an all_gather fills an output buffer that is
// copied to the weights of the unit; a reduce_scatter reads an input buffer to which gradients are copied.
namespace tpplan {
namespace {

ReplayEvent place_of(const ReplayUnit& unit) {
  return {.kind = ReplayKind::Enter,
          .at = 0,
          .module = unit.module == kNone ? ModuleId{0} : unit.module,
          .made = {},
          .last = {}};
}

uint64_t times(uint64_t elements, double bytes) { return static_cast<uint64_t>(static_cast<double>(elements) * bytes); }

// The unit of a parameter's module: of the innermost module that is a unit.
uint32_t unit_at(const Replay& r, ModuleId module) {
  for (; module != kNone; module = r.in.model.modules[module].parent) {
    if (r.unit_of[module] != kNoId) return r.unit_of[module];
  }
  return 0;
}

uint64_t padded_elements(const std::vector<int64_t>& shape, int64_t ranks) {
  if (shape.empty()) return static_cast<uint64_t>(ranks);
  std::vector<int64_t> padded = shape;
  padded[0] = (padded[0] + ranks - 1) / ranks * ranks;
  return elements_of(padded);
}

// Reads the shards and the gathered sizes of the parameters from the trace.
void read_params(Replay& r) {
  const StepTrace& trace = r.in.trace;
  r.params.resize(r.in.model.params.size());
  std::vector<std::vector<int64_t>> full(r.params.size());
  for (uint32_t value = 0; value < trace.values.size(); ++value) {
    const TracedValue& traced = trace.values[value];
    if (traced.param == kNone || r.in.model.params[traced.param].is_buffer) continue;
    ReplayParam& param = r.params[traced.param];
    const auto shape = shape_of(trace, value);
    const bool is_larger = !param.is_used || elements_of(shape) > param.full;
    param.is_gathered |= traced.memory == SlotMemory::Gathered;
    param.own = param.is_used ? std::min(param.own, elements_of(shape)) : elements_of(shape);
    param.is_used = true;
    if (!is_larger) continue;
    param.full = elements_of(shape);
    full[traced.param].assign(shape.begin(), shape.end());
  }
  for (ParamId id = 0; id < r.params.size(); ++id) {
    ReplayParam& param = r.params[id];
    param.padded = param.full;
    if (!param.is_gathered) continue;
    param.padded = padded_elements(full[id], r.ranks);
    param.own = param.padded / static_cast<uint64_t>(r.ranks);
  }
}

bool has_params(const ReplayUnit& unit) { return unit.gathered > 0; }

// Allocates the output of an all_gather.
void start_gather(Replay& r, ReplayUnit& unit) {
  if (!has_params(unit) || unit.weights != kNoBlock || unit.output != kNoBlock) return;
  set_place(r, r.place.phase, place_of(unit), "all_gather");
  unit.output = allocate(r.pool, unit.gathered, TensorUse::AllGather);
}

// Copies the output to the weights. The output stays until `pending_output` is replaced, or is freed at once.
void finish_gather(Replay& r, ReplayUnit& unit) {
  if (unit.output == kNoBlock) return;
  set_place(r, r.place.phase, place_of(unit), "all_gather");
  unit.weights = allocate(r.pool, unit.gathered, TensorUse::Gathered);
  release(r.pool, std::exchange(r.pending_output, kNoBlock));
  if (r.place.phase == StepPhase::Forward)
    r.pending_output = std::exchange(unit.output, kNoBlock);
  else
    release(r.pool, std::exchange(unit.output, kNoBlock));
}

// DTensor shards a gradient that is whole.
void shard_gradient(Replay& r, ParamId id, uint32_t unit) {
  ReplayParam& param = r.params[id];
  if (!param.is_gathered || param.unit != unit || !param.is_whole || param.grad.block == kNoBlock) return;
  const BlockId shard = allocate(r.pool, byte_size(r.in.model.params[id].dtype, param.full), TensorUse::FullGradients);
  release(r.pool, std::exchange(param.grad.block, shard));
}

}  // namespace

void build_units(Replay& r) {
  read_params(r);
  r.units.push_back({});
  r.unit_of.assign(r.in.model.modules.size(), kNoId);
  if (r.ranks == 1) return;
  for (const ModuleId module : r.in.units) {
    r.unit_of[module] = static_cast<uint32_t>(r.units.size());
    r.units.push_back({.module = module});
  }
  for (ParamId id = 0; id < r.params.size(); ++id) {
    ReplayParam& param = r.params[id];
    if (!param.is_gathered) continue;
    param.unit = unit_at(r, r.in.model.params[id].module);
    ReplayUnit& unit = r.units[param.unit];
    unit.gathered += times(param.padded, r.gather_bytes);
    unit.reduced += times(param.padded, r.reduce_bytes);
    unit.own += param.own;
  }
}

void gather_root(Replay& r) {
  r.place.phase = StepPhase::Forward;
  start_gather(r, r.units[0]);
  finish_gather(r, r.units[0]);
}

void gather_unit(Replay& r, ModuleId module) {
  if (module == kNone || r.unit_of[module] == kNoId) return;
  start_gather(r, r.units[r.unit_of[module]]);
  finish_gather(r, r.units[r.unit_of[module]]);
}

void free_unit_after_forward(Replay& r, ModuleId module) {
  if (module == kNone || r.unit_of[module] == kNoId || !r.in.run.reshard_after_forward) return;
  release(r.pool, std::exchange(r.units[r.unit_of[module]].weights, kNoBlock));
}

void end_forward(Replay& r) { release(r.pool, std::exchange(r.pending_output, kNoBlock)); }

void begin_backward(Replay& r) {
  if (r.units.size() > 1) start_gather(r, r.units.back());
}

// FSDP prefetches the unit before, in the order of the forward pass.
void gather_for_backward(Replay& r, ModuleId module) {
  if (module == kNone || r.unit_of[module] == kNoId) return;
  const uint32_t id = r.unit_of[module];
  start_gather(r, r.units[id]);
  finish_gather(r, r.units[id]);
  if (id > 1) start_gather(r, r.units[id - 1]);
}

void reduce_unit(Replay& r, uint32_t id) {
  ReplayUnit& unit = r.units[id];
  if (!has_params(unit)) return;
  set_place(r, r.place.phase, place_of(unit), "reduce_scatter");
  for (ParamId param = 0; param < r.params.size(); ++param) shard_gradient(r, param, id);
  release(r.pool, std::exchange(unit.weights, kNoBlock));
  release(r.pool, std::exchange(r.pending_reduce, kNoBlock));
  r.pending_reduce = allocate(r.pool, unit.reduced, TensorUse::ReduceScatter);
  BlockId last = kNoBlock;  // a loop variable of foreach_reduce holds the last parameter's gradient
  for (ReplayParam& param : r.params) {
    if (!param.is_gathered || param.unit != id || param.grad.block == kNoBlock) continue;
    release(r.pool, last);
    last = std::exchange(param.grad.block, kNoBlock);
  }
  const bool casts = times(unit.own, r.reduce_bytes) != unit.own * r.shard_bytes;
  const BlockId result =
      allocate(r.pool, times(unit.own, r.reduce_bytes), casts ? TensorUse::ReduceScatter : TensorUse::Gradients);
  const BlockId own = casts ? allocate(r.pool, unit.own * r.shard_bytes, TensorUse::Gradients) : result;
  if (casts) release(r.pool, result);
  release(r.pool, last);
  if (r.has_gradients)
    release(r.pool, own);  // added to those of earlier micro-batches
  else
    r.shards.push_back(own);
}

}  // namespace tpplan
