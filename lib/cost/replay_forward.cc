#include <algorithm>
#include <utility>

#include "cost/count_saved.h"
#include "cost/replay.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

void allocate_results(Replay& r, const ReplayEvent& event, bool is_cached, bool again) {
  for (const StorageId id : event.made) {
    BlockId& block = r.block_of[id];
    if (again && r.cached[id] != kNoBlock) {
      release(r.pool, block);
      block = std::exchange(r.cached[id], kNoBlock);
      continue;
    }
    if (block != kNoBlock) continue;
    block = allocate(r.pool, r.memory.storages[id].bytes, TensorUse::Saved);
    if (is_cached && !again) r.cached[id] = hold(r.pool, block);
  }
}

void release_storage(Replay& r, StorageId id) { release(r.pool, std::exchange(r.block_of[id], kNoBlock)); }

// True for operations of `{recompute: [...]}`: their own statistics or scores are computed again.
bool is_dropped(const Replay& r, size_t at) {
  return r.in.run.checkpointing == Checkpointing::Recompute && r.is_saved_op[at] != 0;
}

// Unfused attention also saves the softmax: in float32 and in the model's type in eager mode, once in fused kernels.
void save_scores(Replay& r, size_t at) {
  const uint64_t scores = score_elements(r, at);
  if (scores == 0) return;
  const DType model = dtype_in(r.in.trace, results_of(r, r.events[at])[0]);
  r.saved[at].push_back(allocate(r.pool, byte_size(model, scores), TensorUse::Saved));
  if (r.in.run.compiled == Compiled::Eager)
    r.saved[at].push_back(allocate(r.pool, byte_size(dtype_of("float32"), scores), TensorUse::Saved));
}

// Holds what an operation saves.
void save(Replay& r, size_t at) {
  std::vector<BlockId>& saved = r.saved[at];
  const bool skips_extra = is_dropped(r, at) || !saved.empty();  // a cached operation has saved its own tensors
  std::vector<StorageId> storages;
  const SavedSink sink{.storage = [&](StorageId id) { storages.push_back(id); },
                       .extra =
                           [&](uint64_t bytes) {
                             if (bytes > 0 && !skips_extra) saved.push_back(allocate(r.pool, bytes, TensorUse::Saved));
                           }};
  count_saved(r.in.trace, r.in.model.operations, r.memory, r.events[at].at, sink);
  if (!skips_extra) save_scores(r, at);
  for (const StorageId id : storages) {
    const bool is_fused = is_recomputed_by_fusion(r, at, id);
    for (const StorageId source : is_fused ? r.sources[id] : std::vector<StorageId>{id}) {
      if (r.block_of[source] != kNoBlock) saved.push_back(hold(r.pool, r.block_of[source]));
    }
  }
}

// Saves the tensors of a cached operation that are no results of it, such as the statistics of attention.
void save_extra(Replay& r, size_t at) {
  const SavedSink sink{.storage = [](StorageId) {},
                       .extra =
                           [&](uint64_t bytes) {
                             if (bytes > 0) r.saved[at].push_back(allocate(r.pool, bytes, TensorUse::Saved));
                           }};
  count_saved(r.in.trace, r.in.model.operations, r.memory, r.events[at].at, sink);
  save_scores(r, at);
}

// A layer that is computed again saves its arguments.
void save_arguments(Replay& r, size_t at) {
  for (const uint32_t in : operands_of(r, r.events[at])) {
    const StorageId id = storage_at(r, in);
    const BlockId block = id == kNoId ? kNoBlock : r.block_of[id];
    if (block != kNoBlock) r.saved[at].push_back(hold(r.pool, block));
  }
}

// A collective along another dim than the first copies its input or its output (torch's functional collectives).
void move(Replay& r, const ReplayEvent& event, bool is_cached, bool again) {
  const uint64_t to = bytes_in(r.in.trace, event.at), from = bytes_in(r.in.trace, r.in.trace.values[event.at].from);
  const BlockId copy = to == from ? kNoBlock : allocate(r.pool, std::max(to, from), TensorUse::Saved);
  allocate_results(r, event, is_cached, again);
  release(r.pool, copy);
}

void run_event(Replay& r, size_t at, bool again) {
  const ReplayEvent& event = r.events[at];
  const bool in_layer = r.inside[at] != kNoId && !again;  // of a layer that will be computed again
  if (event.kind == ReplayKind::Op) {
    allocate_results(r, event, in_layer && r.is_saved_op[at] != 0, again);
    if (!in_layer)
      save(r, at);
    else if (r.is_saved_op[at] != 0)
      save_extra(r, at);
  } else if (event.kind == ReplayKind::Move) {
    move(r, event, in_layer && r.is_saved_op[at] != 0, again);
  } else if (event.kind == ReplayKind::Enter && !again) {
    gather_unit(r, event.module);
    if (r.layer_at[at] != kNoId) save_arguments(r, at);
  } else if (event.kind == ReplayKind::Exit && !again) {
    free_unit_after_forward(r, event.module);
  }
  for (const StorageId id : event.last) release_storage(r, id);
}

}  // namespace

uint64_t score_elements(const Replay& r, size_t at) {
  const ReplayEvent& event = r.events[at];
  constexpr size_t kDims = 4;
  if (r.in.run.attention == AttentionKernel::Flash || event.kind != ReplayKind::Op) return 0;
  if (r.in.model.operations.nodes[r.in.trace.ops[event.at].node].op != OpId::ScaledDotProductAttention) return 0;
  const auto ins = operands_of(r, event);
  if (ins.size() < 2) return 0;
  const auto queries = shape_of(r.in.trace, ins[0]), keys = shape_of(r.in.trace, ins[1]);
  if (queries.size() != kDims || keys.size() != kDims) return 0;
  const int64_t scores[] = {queries[0], queries[1], queries[2], keys[2]};
  return elements_of(scores);
}

void run_forward(Replay& r, size_t begin, size_t end, bool again) {
  for (size_t at = begin; at < end; ++at) {
    const int64_t layer = again ? -1 : layer_of_event(r, r.events[at]);
    if (layer >= 0 && r.events[at].kind == ReplayKind::Enter) begin_span(r, StepPhase::Forward, layer);
    set_log_place(r, again ? StepPhase::Backward : StepPhase::Forward, r.events[at]);
    run_event(r, at, again);
    if (layer >= 0 && r.events[at].kind == ReplayKind::Exit) begin_span(r, StepPhase::Forward, -1);
  }
}

void run_layer_again(Replay& r, ReplayLayer& layer) {
  std::vector<StorageId> made;
  for (size_t at = layer.enter + 1; at < layer.last_saving; ++at) {
    for (const StorageId id : r.events[at].made) {
      if (r.block_of[id] == kNoBlock || r.cached[id] != kNoBlock) made.push_back(id);
    }
  }
  run_forward(r, layer.enter + 1, layer.last_saving, true);
  if (layer.last_saving > layer.enter) save(r, layer.last_saving);
  for (const StorageId id : made) release_storage(r, id);
}

}  // namespace tpplan
