#include <algorithm>

#include "cost/replay.h"
#include "ops/op_row.h"

// Which saved tensors fused kernels compute again. The partitioner of torch.compile saves what a matmul of the backward
// pass reads (is_materialized_backward, torch/_functorch/partitioners.py), and so do hand-fused kernels: a norm saves
// its input and its statistics, an activation its input.
namespace tpplan {
namespace {

constexpr size_t kMostSources = 8;  // a longer chain is saved

bool is_fusible(const GraphNode& node) {
  const ResultMemory how = op_row(node.op).memory;
  return how == ResultMemory::NewLike || how == ResultMemory::Converts || node.op == OpId::Cat;
}

bool is_fused(const Replay& r, StorageId id) { return !r.sources[id].empty(); }

// True for the sum of a residual: an operand is no elementwise result.
bool is_residual(const Replay& r, const ReplayEvent& event, const GraphNode& node) {
  if (node.op != OpId::Add) return false;
  const auto ins = operands_of(r, event);
  return ins.size() > 1 && std::ranges::any_of(ins, [&](uint32_t in) {
           const StorageId id = r.memory.storage_of[in];
           return r.memory.storages[id].kind != StorageKind::Leaf && r.in.trace.values[in].requires_grad &&
                  !is_fused(r, id);
         });
}

void add_sources(const Replay& r, StorageId id, std::vector<StorageId>& sources) {
  const StorageKind kind = r.memory.storages[id].kind;
  if (kind == StorageKind::Leaf || kind == StorageKind::Weights) return;
  if (!is_fused(r, id)) {
    if (std::ranges::find(sources, id) == sources.end()) sources.push_back(id);
    return;
  }
  for (const StorageId source : r.sources[id]) add_sources(r, source, sources);
}

}  // namespace

void set_recompute_sources(Replay& r, const ReplayEvent& event) {
  if (r.in.run.compiled == Compiled::Eager || event.kind != ReplayKind::Op || event.made.empty()) return;
  const GraphNode& node = r.in.model.operations.nodes[r.in.trace.ops[event.at].node];
  if (!is_fusible(node) || is_residual(r, event, node)) return;
  std::vector<StorageId> sources;
  for (const uint32_t in : operands_of(r, event)) add_sources(r, r.memory.storage_of[in], sources);
  if (sources.size() > kMostSources) return;
  for (const StorageId id : event.made) r.sources[id] = sources;
}

bool is_recomputed_by_fusion(const Replay& r, size_t at, StorageId id) {
  return is_fused(r, id) && is_fusible(r.in.model.operations.nodes[r.in.trace.ops[r.events[at].at].node]);
}

}  // namespace tpplan
