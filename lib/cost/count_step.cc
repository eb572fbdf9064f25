#include "cost/count_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cost/checked_sum.h"
#include "cost/count_saved.h"
#include "cost/count_work.h"
#include "cost/follow_memory.h"
#include "cost/layer_path.h"
#include "ops/op_row.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// The name of the row for inputs of recomputed modules.
constexpr std::string_view kGivenToRemat = "remat";

// The costs of one layer, or of everything outside of layers.
struct OneLayer {
  std::string_view stack;
  int64_t number = -1;
  LayerCosts costs;
};

// What one operation of a layer added to the costs: saved memory, or FLOPs.
struct CountedPart {
  uint32_t row = 0;  // into by_op
  ModuleId module = kNone;
  StorageKind kind = StorageKind::Made;
  uint64_t bytes = 0;
  MatmulWork work;  // where `bytes` is 0
};

// The record of the last layer that is counted before repeated ones, which are skipped.
struct LayerCounts {
  bool is_on = false;
  const SkippedLayers* skipped = nullptr;
  bool in_unit = false;            // the layer begins in a unit of `remat`
  bool saves_older = false;        // it saves a storage older than the layer before it, which no later layer does
  std::vector<uint8_t> saved;      // storages of the layer before it that were saved when it began
  std::vector<CountedPart> parts;  // its costs
};

struct Counting {
  const StepTrace& trace;
  const ModelGraph& model;
  StepMemory memory;
  StepCosts costs;
  std::vector<OneLayer> layers;
  std::vector<uint32_t> layer_of;  // by module, kNoId: not asked yet
  std::map<std::pair<std::string_view, int64_t>, uint32_t> layer_index;
  std::vector<uint32_t> row_of;         // by name of an operation, into by_op
  std::vector<uint8_t> saved, in_unit;  // by storage
  std::vector<StorageId> of_unit;       // storages of the current unit of `remat`
  uint64_t unit = 0;                    // bytes that the unit saves during its recomputation
  uint64_t unit_gradients = 0;          // maximum bytes of gradients at an operation of the unit
  LayerCounts last_layer;
};

void add_to(uint64_t& sum, uint64_t more) {
  sum = more > kMostInTotal - std::min(sum, kMostInTotal) ? kMostInTotal : sum + more;
}

uint32_t layer_at(Counting& c, ModuleId module) {
  const std::string_view path = module == kNone ? std::string_view{} : c.model.modules[module].path;
  if (module != kNone && c.layer_of[module] != kNoId) return c.layer_of[module];
  const LayerPath found = layer_path(path);
  const auto [entry, is_new] =
      c.layer_index.try_emplace({found.stack, found.number}, static_cast<uint32_t>(c.layers.size()));
  if (is_new) c.layers.push_back({found.stack, found.number, {}});
  if (module != kNone) c.layer_of[module] = entry->second;
  return entry->second;
}

uint32_t new_row(Counting& c, std::string_view name) {
  c.costs.by_op.push_back({.op = std::string(name)});
  return static_cast<uint32_t>(c.costs.by_op.size() - 1);
}

uint32_t row_at(Counting& c, StringId name) {
  if (c.row_of[name] == kNoId) c.row_of[name] = new_row(c, c.model.operations.strings[name]);
  return c.row_of[name];
}

// `at`: the row of the operation that saves it.
void save_bytes(Counting& c, uint32_t at, ModuleId module, uint64_t bytes, StorageKind kind) {
  if (c.last_layer.is_on)
    c.last_layer.parts.push_back({.row = at, .module = module, .kind = kind, .bytes = bytes, .work = {}});
  SavedTensors& row = c.costs.by_op[at];
  ++row.tensors;
  if (kind == StorageKind::Gathered) add_to(c.costs.gathered, bytes);
  if (kind == StorageKind::Weights) add_to(c.costs.gathered_weights, bytes);
  add_to(row.bytes, bytes);
  add_to(c.costs.saved, bytes);
  add_to(c.layers[layer_at(c, module)].costs.saved, bytes);
}

void save_storage(Counting& c, uint32_t at, ModuleId module, StorageId id) {
  const Storage& storage = c.memory.storages[id];
  if (storage.kind == StorageKind::Leaf || storage.bytes == 0 || c.saved[id]) return;
  c.saved[id] = 1;
  if (c.last_layer.is_on && id < c.last_layer.skipped->begins[0]) c.last_layer.saves_older = true;
  save_bytes(c, at, module, storage.bytes, storage.kind);
}

void save_in_unit(Counting& c, StorageId id) {
  const Storage& storage = c.memory.storages[id];
  if (storage.kind == StorageKind::Leaf || c.saved[id] || c.in_unit[id]) return;
  c.in_unit[id] = 1;
  c.of_unit.push_back(id);
  add_to(c.unit, storage.bytes);
}

void set_transient(Counting& c, uint64_t bytes, std::string_view op, ModuleId module) {
  if (bytes <= c.costs.transient) return;
  c.costs.transient = bytes;
  c.costs.transient_op = op;
  c.costs.transient_module = module == kNone ? std::string_view{} : c.model.modules[module].path;
}

// Counts the gradients of results and operands, without those of parameters.
void count_gradients(Counting& c, const TracedOp& op, bool in_unit) {
  if (!wants_gradient(c.trace, op)) return;
  uint64_t bytes = 0;
  for (uint32_t i = op.in_begin; i < op.out_end; ++i) {
    const TracedValue& value = c.trace.values[c.trace.slots[i]];
    if (value.requires_grad && value.param == kNone) add_to(bytes, bytes_in(c.trace, c.trace.slots[i]));
  }
  if (in_unit) c.unit_gradients = std::max(c.unit_gradients, bytes);
  set_transient(c, bytes, c.model.operations.strings[c.model.operations.nodes[op.node].name], op.module);
}

void add_work(Counting& c, ModuleId module, const MatmulWork& work) {
  if (c.last_layer.is_on) c.last_layer.parts.push_back({.module = module, .work = work});
  std::vector<MatmulWork>& rows = c.layers[layer_at(c, module)].costs.work;
  auto row = std::find_if(rows.begin(), rows.end(), [&](const MatmulWork& r) { return r.dtype == work.dtype; });
  if (row == rows.end()) row = rows.insert(rows.end(), {.dtype = work.dtype});
  add_to(row->forward, work.forward);
  add_to(row->backward, work.backward);
  add_to(row->again, work.again);
}

void count_matmuls(Counting& c, const TracedOp& op, bool again) {
  MatmulWork work = count_work(c.trace, c.model.operations, op);
  if (work.forward == 0) return;
  work.again = again && wants_gradient(c.trace, op) ? work.forward : 0;
  add_work(c, op.module, work);
}

void count_op(Counting& c, size_t index, bool in_unit) {
  const TracedOp& op = c.trace.ops[index];
  const GraphNode& node = c.model.operations.nodes[op.node];
  const StringId name = node.name;
  if (op_row(node.op).memory == ResultMemory::Unknown && wants_gradient(c.trace, op) && c.row_of[name] == kNoId) {
    c.costs.unknown_ops.emplace_back(c.model.operations.strings[name]);
    std::ignore = row_at(c, name);
  }
  const SavedSink sink{
      .storage = [&](StorageId id) { in_unit ? save_in_unit(c, id) : save_storage(c, row_at(c, name), op.module, id); },
      .extra =
          [&](uint64_t bytes) {
            if (in_unit)
              add_to(c.unit, bytes);
            else if (bytes > 0)
              save_bytes(c, row_at(c, name), op.module, bytes, StorageKind::Made);
          }};
  count_saved(c.trace, c.model.operations, c.memory, index, sink);
  count_gradients(c, op, in_unit);
  count_matmuls(c, op, in_unit);
}

void end_unit(Counting& c, ModuleId module) {
  add_to(c.unit, c.unit_gradients);
  set_transient(c, c.unit, kGivenToRemat, module);
  for (const StorageId id : c.of_unit) c.in_unit[id] = 0;
  c.of_unit.clear();
  c.unit = c.unit_gradients = 0;
}

// Joins identical layers of a stack; the group has the place of its first layer.
void fold_layers(Counting& c) {
  std::stable_partition(c.layers.begin(), c.layers.end(), [](const OneLayer& layer) { return layer.number < 0; });
  struct EqualLayers {
    const OneLayer* first = nullptr;
    std::vector<int64_t> numbers;
  };
  std::vector<EqualLayers> groups;
  for (const OneLayer& layer : c.layers) {
    if (layer.costs.saved == 0 && layer.costs.work.empty()) continue;
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const EqualLayers& g) {
      return layer.number >= 0 && g.first->stack == layer.stack && g.first->number >= 0 &&
             g.first->costs == layer.costs;
    });
    if (group == groups.end())
      groups.push_back({&layer, {layer.number}});
    else
      group->numbers.push_back(layer.number);
  }
  for (EqualLayers& group : groups) {
    LayerCosts& costs = c.costs.layers.emplace_back(group.first->costs);
    if (group.first->number < 0) continue;
    std::sort(group.numbers.begin(), group.numbers.end());
    costs.count = group.numbers.size();
    costs.layers = layers_text(group.first->stack, group.numbers);
  }
}

// Starts the record at the begin of the last layer that is counted before others are skipped.
void begin_layer(Counting& c, const SkippedLayers& skipped, bool in_unit) {
  c.last_layer = {.is_on = true, .skipped = &skipped, .in_unit = in_unit, .saved = {}, .parts = {}};
  for (StorageId id = skipped.begins[0]; id < skipped.begins[1]; ++id) c.last_layer.saved.push_back(c.saved[id]);
}

// Adds the recorded costs for each layer that is skipped. Returns false if the next layer would start from another
// state or is treated differently.
bool count_again(Counting& c, const std::vector<uint8_t>& is_remat, bool in_unit) {
  const LayerCounts last_layer = std::exchange(c.last_layer, {});
  const SkippedLayers& skipped = *last_layer.skipped;
  const TracedLayers& layers = *skipped.layers;
  if (last_layer.in_unit || in_unit || last_layer.saves_older) return false;
  for (size_t i = 0; i < last_layer.saved.size(); ++i) {
    if (last_layer.saved[i] != c.saved[skipped.begins[1] + i]) return false;
  }
  // The modules of the counted layer come directly before those of the first skipped layer.
  const ModuleId next = layers.module + skipped.followed * layers.modules, first = next - layers.modules;
  const uint32_t count = layers.count - skipped.followed;
  for (ModuleId module = first; module < next + (count - 1) * layers.modules; ++module) {
    if (is_remat[module] != is_remat[module + layers.modules]) return false;
  }
  for (uint32_t layer = 1; layer <= count; ++layer) {
    for (const CountedPart& part : last_layer.parts) {
      const bool moves = part.module != kNone && part.module >= first && part.module < next;
      const ModuleId module = moves ? part.module + layer * layers.modules : part.module;
      if (part.bytes > 0)
        save_bytes(c, part.row, module, part.bytes, part.kind);
      else
        add_work(c, module, part.work);
    }
  }
  return true;
}

// Returns nullopt if skipped layers would have to be counted.
std::optional<StepCosts> count_layers(const StepTrace& trace, const ModelGraph& model, std::span<const ModuleId> remat,
                                      bool each_layer) {
  Counting c{.trace = trace, .model = model, .memory = follow_memory(trace, model.operations, each_layer)};
  c.layer_of.assign(model.modules.size(), kNoId);
  c.row_of.assign(model.operations.strings.size(), kNoId);
  c.saved.assign(c.memory.storages.size(), 0);
  c.in_unit.assign(c.memory.storages.size(), 0);
  c.costs.is_there = true;
  std::vector<uint8_t> is_remat(model.modules.size(), 0);
  for (const ModuleId module : remat) is_remat[module] = 1;
  ModuleId unit = kNone;  // of `remat`, that runs
  const uint32_t given = new_row(c, kGivenToRemat);
  auto skipped = c.memory.omitted.begin();
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (skipped != c.memory.omitted.end()) {
      const TracedLayers& layers = *skipped->layers;
      const size_t next = layers.op + size_t{skipped->followed} * layers.ops;
      if (i + layers.ops == next) begin_layer(c, *skipped, unit != kNone);
      if (i == next) {
        if (!count_again(c, is_remat, unit != kNone)) return std::nullopt;
        ++skipped;
        i = layers.op + size_t{layers.count} * layers.ops;
        if (i == trace.ops.size()) break;
      }
    }
    const TracedOp& op = trace.ops[i];
    if (op.kind == TracedKind::Op) {
      count_op(c, i, unit != kNone);
    } else if (op.kind == TracedKind::Enter && unit == kNone && op.module != kNone && is_remat[op.module]) {
      unit = op.module;
      for (uint32_t in = op.in_begin; in < op.in_end; ++in)
        save_storage(c, given, op.module, c.memory.storage_of[trace.slots[in]]);
    } else if (op.kind == TracedKind::Exit && op.module == unit && unit != kNone) {
      end_unit(c, unit);
      unit = kNone;
    }
  }
  for (const uint32_t output : trace.outputs)
    add_to(c.costs.logits, byte_size(dtype_of("float32"), elements_of(shape_of(trace, output))));
  std::erase_if(c.costs.by_op, [](const SavedTensors& row) { return row.tensors == 0; });
  std::stable_sort(c.costs.by_op.begin(), c.costs.by_op.end(),
                   [](const SavedTensors& a, const SavedTensors& b) { return a.bytes > b.bytes; });
  if (c.costs.saved == kMostInTotal) return StepCosts{};  // overflow
  fold_layers(c);
  return std::move(c.costs);
}

}  // namespace

std::optional<uint64_t> output_bytes_of_step(const StepTrace& trace) {
  if (!trace.is_there) return std::nullopt;
  uint64_t bytes = 0;
  for (const uint32_t output : trace.outputs) add_to(bytes, bytes_in(trace, output));
  return bytes;
}

StepCosts count_step(const StepTrace& trace, const ModelGraph& model, std::span<const ModuleId> remat) {
  if (!trace.is_there) return {};
  if (auto costs = count_layers(trace, model, remat, trace.repeats.empty())) return *std::move(costs);
  return count_layers(trace, model, remat, true).value_or(StepCosts{});
}

}  // namespace tpplan
