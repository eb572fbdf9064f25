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

// The unit of a parameter's module: of the innermost module that is a unit.
uint32_t unit_at(const Replay& r, ModuleId module) {
  for (; module != kNone; module = r.in.model.modules[module].parent) {
    if (r.unit_of[module] != kNoId) return r.unit_of[module];
  }
  return 0;
}

// Reads the shards and the gathered sizes of the parameters from the trace.
void read_params(Replay& r) {
  const StepTrace& trace = r.in.trace;
  r.params.resize(r.in.model.params.size());
  r.log.counts.resize(r.params.size());
  for (uint32_t value = 0; value < trace.values.size(); ++value) {
    const TracedValue& traced = trace.values[value];
    if (traced.param == kNone || r.in.model.params[traced.param].is_buffer) continue;
    ReplayParam& param = r.params[traced.param];
    const auto shape = shape_of(trace, value);
    const bool is_larger = !param.is_used || elements_of(shape) > param.full;
    param.is_gathered |= traced.memory == SlotMemory::Gathered;
    param.shard_elements = param.is_used ? std::min(param.shard_elements, elements_of(shape)) : elements_of(shape);
    param.is_used = true;
    if (!is_larger) continue;
    param.full = elements_of(shape);
    r.log.counts[traced.param].rows = shape.empty() ? 1 : static_cast<uint64_t>(shape[0]);
  }
  for (ParamId id = 0; id < r.params.size(); ++id) {
    ReplayParam& param = r.params[id];
    r.log.counts[id].elements = param.is_gathered ? param.full : param.shard_elements;
    if (!param.is_gathered) r.log.counts[id].rows = 0;
    param.shard_elements = elements_at(r.log, id, r.ranks);
  }
}

// The counts of a unit follow those of the parameters: of the rank's shards, and of gathered weights.
uint32_t shard_count_index(const Replay& r, const ReplayUnit& unit) {
  return static_cast<uint32_t>(r.params.size() + 2 * static_cast<size_t>(&unit - r.units.data()));
}

BlockId allocate_unit_shard(Replay& r, const ReplayUnit& unit, double bytes, TensorUse as) {
  return allocate_shard(r, {shard_count_index(r, unit), bytes}, as);
}

BlockId allocate_gathered(Replay& r, const ReplayUnit& unit, double bytes, TensorUse as, UnitBuffer buffer) {
  return allocate_shard(r, {shard_count_index(r, unit) + 1, bytes, buffer}, as);
}

bool has_params(const ReplayUnit& unit) { return unit.gathered > 0; }

// Allocates the output of an all_gather.
void start_gather(Replay& r, ReplayUnit& unit) {
  if (!has_params(unit) || unit.weights != kNoBlock || unit.output != kNoBlock) return;
  set_log_place(r, r.place.phase, place_of(unit), "all_gather");
  unit.output = allocate_gathered(r, unit, r.gather_bytes, TensorUse::AllGather, UnitBuffer::Gathered);
}

// Copies the output to the weights. The output stays until `pending_output` is replaced, or is freed at once.
void finish_gather(Replay& r, ReplayUnit& unit) {
  if (unit.output == kNoBlock) return;
  set_log_place(r, r.place.phase, place_of(unit), "all_gather");
  unit.weights = allocate_gathered(r, unit, r.gather_bytes, TensorUse::Gathered, UnitBuffer::None);
  release(r.pool, std::exchange(r.pending_output, kNoBlock));
  if (r.place.phase == StepPhase::Forward)
    r.pending_output = std::exchange(unit.output, kNoBlock);
  else
    release(r.pool, std::exchange(unit.output, kNoBlock));
}

// DTensor shards a gradient that is whole.
void shard_gradient(Replay& r, ParamId id, uint32_t unit) {
  ReplayParam& param = r.params[id];
  if (!param.is_gathered || param.unit != unit || !param.has_full_gradient || param.grad.block == kNoBlock) return;
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
  r.log.counts.resize(r.params.size() + 2 * r.units.size());
  for (ParamId id = 0; id < r.params.size(); ++id) {
    ReplayParam& param = r.params[id];
    if (!param.is_gathered) continue;
    param.unit = unit_at(r, r.in.model.params[id].module);
    const uint32_t index = shard_count_index(r, r.units[param.unit]);
    r.log.counts[index].parts.push_back(id);
    r.log.counts[index + 1].parts.push_back(id);
    r.log.counts[index + 1].is_gathered = true;
  }
  for (ReplayUnit& unit : r.units) {
    unit.shard_elements = elements_at(r.log, shard_count_index(r, unit), r.ranks);
    unit.gathered = shard_bytes(elements_at(r.log, shard_count_index(r, unit) + 1, r.ranks), r.gather_bytes);
  }
}

BlockId allocate_shard(Replay& r, const ShardSize& size, TensorUse as) {
  return allocate(r.pool, shard_bytes(elements_at(r.log, size.count, r.ranks), size.bytes), as, size);
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
  set_log_place(r, r.place.phase, place_of(unit), "reduce_scatter");
  for (ParamId param = 0; param < r.params.size(); ++param) shard_gradient(r, param, id);
  release(r.pool, std::exchange(unit.weights, kNoBlock));
  release(r.pool, std::exchange(r.pending_reduce, kNoBlock));
  r.pending_reduce = allocate_gathered(r, unit, r.reduce_bytes, TensorUse::ReduceScatter, UnitBuffer::Reduced);
  BlockId last = kNoBlock;  // a loop variable of foreach_reduce holds the last parameter's gradient
  for (ReplayParam& param : r.params) {
    if (!param.is_gathered || param.unit != id || param.grad.block == kNoBlock) continue;
    release(r.pool, last);
    last = std::exchange(param.grad.block, kNoBlock);
  }
  const bool casts = r.reduce_bytes != r.shard_bytes;
  const BlockId result =
      allocate_unit_shard(r, unit, r.reduce_bytes, casts ? TensorUse::ReduceScatter : TensorUse::Gradients);
  const BlockId shard = casts ? allocate_unit_shard(r, unit, r.shard_bytes, TensorUse::Gradients) : result;
  if (casts) release(r.pool, result);
  release(r.pool, last);
  if (r.has_gradients)
    release(r.pool, shard);  // added to those of earlier micro-batches
  else
    r.shards.push_back(shard);
}

}  // namespace tpplan
