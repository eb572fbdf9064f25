#include <algorithm>

#include "cost/count_saved.h"
#include "cost/layer_path.h"
#include "cost/replay.h"
#include "ops/op_row.h"

namespace tpplan {
namespace {

// Building of Replay::events.
struct EventList {
  Replay& r;
  std::vector<bool> is_made;       // by value, of boundaries
  std::vector<bool> is_allocated;  // by storage
  std::vector<size_t> last_use;    // by storage
};

// A tensor that is computed again uses those from which it is.
void use_value(EventList& l, uint32_t value) {
  const StorageId storage = storage_at(l.r, value);
  if (storage == kNoId) return;
  l.last_use[storage] = l.r.events.size();
  for (const StorageId source : l.r.sources[storage]) l.last_use[source] = l.r.events.size();
}

void make_storage(EventList& l, ReplayEvent& event, uint32_t value) {
  const StorageId storage = storage_at(l.r, value);
  if (storage == kNoId) return;
  const StorageKind kind = l.r.memory.storages[storage].kind;
  if (l.is_allocated[storage] || kind == StorageKind::Leaf || kind == StorageKind::Weights) return;
  l.is_allocated[storage] = true;
  event.made.push_back(storage);
}

// Adds the moves that make a value at module boundaries, the earliest first.
void move_to(EventList& l, uint32_t value, ModuleId module) {
  const TracedValue& traced = l.r.in.trace.values[value];
  if (l.is_made[value]) return;
  l.is_made[value] = true;
  if (traced.from == kNoId) return;
  move_to(l, traced.from, module);
  if (traced.memory == SlotMemory::Same || traced.memory == SlotMemory::Result || traced.param != kNone) return;
  ReplayEvent event{.kind = ReplayKind::Move, .at = value, .module = module, .made = {}, .last = {}};
  make_storage(l, event, value);
  use_value(l, traced.from);
  use_value(l, value);
  l.r.events.push_back(std::move(event));
}

ReplayKind kind_of_event(TracedKind kind) {
  return kind == TracedKind::Op ? ReplayKind::Op : kind == TracedKind::Enter ? ReplayKind::Enter : ReplayKind::Exit;
}

void add_event(EventList& l, uint32_t at) {
  const TracedOp& op = l.r.in.trace.ops[at];
  const auto slots = std::span(l.r.in.trace.slots);
  for (const uint32_t in : slots.subspan(op.in_begin, op.in_end - op.in_begin)) {
    if (op.kind == TracedKind::Op) move_to(l, in, op.module);
  }
  ReplayEvent event{.kind = kind_of_event(op.kind), .at = at, .module = op.module, .made = {}, .last = {}};
  for (const uint32_t in : slots.subspan(op.in_begin, op.in_end - op.in_begin)) use_value(l, in);
  for (const uint32_t out : slots.subspan(op.out_begin, op.out_end - op.out_begin)) {
    make_storage(l, event, out);
    use_value(l, out);
  }
  set_recompute_sources(l.r, event);
  l.r.events.push_back(std::move(event));
}

// True for modules of a repeated stack: "model.layers.3".
bool is_layer(const ModelGraph& model, ModuleId module) {
  const LayerPath path = layer_path(model.modules[module].path);
  return path.number >= 0 && path.below.empty();
}

bool is_recomputed(const Replay& r, ModuleId module) {
  const Run& run = r.in.run;
  const bool in_plan = std::ranges::find(r.in.remat, module) != r.in.remat.end();
  switch (run.checkpointing) {
    case Checkpointing::None:
    case Checkpointing::Recompute:  // replay_forward.cc
      return in_plan;
    case Checkpointing::Every:
      return is_layer(r.in.model, module) &&
             layer_path(r.in.model.modules[module].path).number % run.every == run.every - 1;
    case Checkpointing::Full:
    case Checkpointing::Save:
    case Checkpointing::SelectiveOps:
      break;
  }
  return is_layer(r.in.model, module);
}

bool saves_something(const Replay& r, const ReplayEvent& event) {
  bool saves = false;
  const SavedSink sink{.storage = [&](StorageId) { saves = true; },
                       .extra = [&](uint64_t bytes) { saves |= bytes > 0; }};
  count_saved(r.in.trace, r.in.model.operations, r.memory, event.at, sink);
  return saves;
}

// Fills `layers`, with the outermost recomputed modules.
void find_layers(Replay& r) {
  r.layer_at.assign(r.events.size(), kNoId);
  r.inside.assign(r.events.size(), kNoId);
  ReplayLayer layer;
  ModuleId current = kNone;
  for (size_t i = 0; i < r.events.size(); ++i) {
    const ReplayEvent& event = r.events[i];
    const auto id = static_cast<uint32_t>(r.layers.size());
    if (current != kNone) r.inside[i] = id;
    if (current == kNone && event.kind == ReplayKind::Enter && event.module != kNone &&
        is_recomputed(r, event.module)) {
      current = event.module;
      layer = {.enter = i, .exit = 0, .last_saving = i};
      r.layer_at[i] = id;
    } else if (current != kNone && event.kind == ReplayKind::Op) {
      if (saves_something(r, event)) layer.last_saving = i;
    } else if (event.kind == ReplayKind::Exit && event.module == current && current != kNone) {
      layer.exit = i;
      r.layer_at[i] = id;
      r.layers.push_back(layer);
      current = kNone;
    }
  }
}

bool is_linear(OpId op) { return op == OpId::Linear || op == OpId::Matmul || op == OpId::Mm; }

// aten.mm of a Linear without bias; one with bias is aten.addmm (torch 2.13).
bool is_plain_mm(const Replay& r, const ReplayEvent& event) {
  constexpr size_t kBias = 2;
  return is_linear(r.in.model.operations.nodes[r.in.trace.ops[event.at].node].op) &&
         operands_of(r, event).size() <= kBias;
}

// True for a move that reduces: the result is smaller than its source.
bool is_reduce_scatter(const Replay& r, const ReplayEvent& event) {
  const uint32_t from = r.in.trace.values[event.at].from;
  return bytes_in(r.in.trace, event.at) < bytes_in(r.in.trace, from) &&
         r.in.trace.values[event.at].memory == SlotMemory::Copy;
}

// Marks the events whose results selective checkpointing saves. `linears`: matmuls of the layer before the event.
bool is_saved_by_run(const Replay& r, const ReplayEvent& event, size_t& linears) {
  const Run& run = r.in.run;
  if (run.checkpointing == Checkpointing::SelectiveOps) {
    if (event.kind == ReplayKind::Move) return is_reduce_scatter(r, event);
    if (event.kind != ReplayKind::Op) return false;
    if (is_plain_mm(r, event)) return linears++ % 2 == 0;
    return r.in.model.operations.nodes[r.in.trace.ops[event.at].node].op == OpId::ScaledDotProductAttention;
  }
  if (run.checkpointing != Checkpointing::Save && run.checkpointing != Checkpointing::Recompute) return false;
  if (event.kind == ReplayKind::Move) return (run.operations & kSaveCollectives) != 0;
  if (event.kind != ReplayKind::Op) return false;
  const OpId op = r.in.model.operations.nodes[r.in.trace.ops[event.at].node].op;
  if (op == OpId::ScaledDotProductAttention) return (run.operations & kSaveAttention) != 0;
  if (!is_linear(op)) return false;
  return (run.operations & kSaveLinear) != 0 || ((run.operations & kSaveEverySecondLinear) != 0 && linears++ % 2 == 0);
}

void mark_saved_ops(Replay& r) {
  r.is_saved_op.assign(r.events.size(), 0);
  for (const ReplayLayer& layer : r.layers) {
    size_t linears = 0;
    for (size_t i = layer.enter + 1; i < layer.exit; ++i) r.is_saved_op[i] = is_saved_by_run(r, r.events[i], linears);
  }
  if (r.in.run.checkpointing != Checkpointing::Recompute) return;
  size_t linears = 0;
  for (size_t i = 0; i < r.events.size(); ++i) r.is_saved_op[i] = is_saved_by_run(r, r.events[i], linears);
}

uint32_t same_value_with_storage(const Replay& r, uint32_t value) {
  const auto& values = r.in.trace.values;
  while (r.memory.storage_of[value] == kNoId && values[value].memory == SlotMemory::Same && values[value].from != kNoId)
    value = values[value].from;
  return value;
}

}  // namespace

uint32_t value_with_same_memory(const StepTrace& trace, uint32_t value) {
  while (trace.values[value].memory == SlotMemory::Same && trace.values[value].from != kNoId)
    value = trace.values[value].from;
  return value;
}

StorageId storage_at(const Replay& r, uint32_t value) { return r.memory.storage_of[same_value_with_storage(r, value)]; }

std::span<const uint32_t> operands_of(const Replay& r, const ReplayEvent& event) {
  const TracedOp& op = r.in.trace.ops[event.at];
  return std::span(r.in.trace.slots).subspan(op.in_begin, op.in_end - op.in_begin);
}

std::span<const uint32_t> results_of(const Replay& r, const ReplayEvent& event) {
  const TracedOp& op = r.in.trace.ops[event.at];
  return std::span(r.in.trace.slots).subspan(op.out_begin, op.out_end - op.out_begin);
}

void set_log_place(Replay& r, StepPhase phase, const ReplayEvent& event, std::string_view operation) {
  const OpGraph& graph = r.in.model.operations;
  r.place.phase = phase;
  r.place.operation = !operation.empty()             ? operation
                      : event.kind == ReplayKind::Op ? graph.strings[graph.nodes[r.in.trace.ops[event.at].node].name]
                                                     : std::string_view{};
  r.place.module = event.module == kNone ? std::string_view{} : r.in.model.modules[event.module].path;
}

void begin_span(Replay& r, StepPhase phase, int64_t layer) {
  if (r.pool.log == nullptr) return;
  r.log.spans.push_back({r.span_phase, r.span_layer, r.pool.span_peak, r.pool.now, r.pool.at_span_peak});
  end_logged_span(r.pool);
  r.pool.span_peak = r.pool.now;
  r.pool.at_span_peak = r.pool.held;
  r.span_phase = phase;
  r.span_layer = layer;
}

int64_t layer_of_event(const Replay& r, const ReplayEvent& event) {
  const bool is_boundary = event.kind == ReplayKind::Enter || event.kind == ReplayKind::Exit;
  if (r.pool.log == nullptr || !is_boundary || event.module == kNone) return -1;
  const LayerPath path = layer_path(r.in.model.modules[event.module].path);
  return path.below.empty() ? path.number : -1;
}

void build_events(Replay& r) {
  r.sources.assign(r.memory.storages.size(), {});
  EventList l{.r = r,
              .is_made = std::vector<bool>(r.in.trace.values.size(), false),
              .is_allocated = std::vector<bool>(r.memory.storages.size(), false),
              .last_use = std::vector<size_t>(r.memory.storages.size(), 0)};
  for (uint32_t i = 0; i < r.in.trace.ops.size(); ++i) add_event(l, i);
  for (const uint32_t output : r.in.trace.outputs) {
    move_to(l, output, kNone);
    use_value(l, output);
  }
  for (StorageId id = 0; id < r.memory.storages.size(); ++id) {
    if (l.is_allocated[id] && l.last_use[id] < r.events.size()) r.events[l.last_use[id]].last.push_back(id);
  }
  find_layers(r);
  mark_saved_ops(r);
  r.saved.resize(r.events.size());
  r.block_of.assign(r.memory.storages.size(), kNoBlock);
  r.cached.assign(r.memory.storages.size(), kNoBlock);
  r.grads.resize(r.in.trace.values.size());
}

}  // namespace tpplan
