#include "cost/skip_layers.h"

#include <algorithm>

namespace tpplan {
namespace {

// The last layer that was not skipped, and the one before it.
struct TwoLayers {
  const StepTrace& trace;
  const StepMemory& memory;
  uint32_t values = 0;             // of each
  uint32_t first = 0, second = 0;  // their first values
  const StorageId* begins;         // first storages of both, and the end of the second
};

// True if a value of the first layer and its counterpart in the second have the same storage and strides, up to ids.
bool has_same_memory(const TwoLayers& two, uint32_t value) {
  if (value < two.first || value >= two.second) return true;  // the same for both
  const uint32_t other = value + two.values;
  const StepMemory& memory = two.memory;
  const StorageId a = memory.storage_of[value], b = memory.storage_of[other];
  const TracedValue &x = two.trace.values[value], &y = two.trace.values[other];
  if (x.memory != y.memory || x.shape != y.shape) return false;
  if (a != kNoId && a < two.begins[1]) {
    if (b != (a < two.begins[0] ? a : a + (two.begins[1] - two.begins[0]))) return false;
    return memory.strides[value] == memory.strides[other] && memory.storages[a].bytes == memory.storages[b].bytes &&
           memory.storages[a].kind == memory.storages[b].kind;
  }
  // The value was unused when the second layer began, and its counterpart is unused now.
  if (b != kNoId) return false;
  if (x.from == kNoId) return y.from == kNoId;
  const bool moves = x.from >= two.first && x.from < two.second;
  return y.from == (moves ? x.from + two.values : x.from) && has_same_memory(two, x.from);
}

// Compares all inputs of the second layer with those of the first.
bool map_repeated_values(const TwoLayers& two, const TracedLayers& layers, size_t end) {
  if (two.begins[2] - two.begins[1] != two.begins[1] - two.begins[0]) return false;
  const StepTrace& trace = two.trace;
  const uint32_t begin = trace.ops[end - layers.ops].in_begin, op_end = trace.ops[end - 1].out_end;
  for (uint32_t i = begin; i < op_end; ++i) {
    if (!has_same_memory(two, trace.slots[i])) return false;
  }
  for (uint32_t value = two.second; value < two.second + two.values; ++value) {
    const uint32_t from = trace.values[value].from;
    if (from != kNoId && !has_same_memory(two, from)) return false;
  }
  return true;
}

// True if an operation after the layers uses a value in [begin, last), which belong to skipped layers.
bool are_missed(const StepTrace& trace, size_t end, uint32_t begin, uint32_t last) {
  const auto is_one = [&](uint32_t value) { return value != kNoId && value >= begin && value < last; };
  const size_t op_end = end < trace.ops.size() ? trace.ops[end].in_begin : trace.slots.size();
  return std::any_of(trace.slots.begin() + static_cast<std::ptrdiff_t>(op_end), trace.slots.end(), is_one) ||
         std::any_of(trace.values.begin() + last, trace.values.end(),
                     [&](const TracedValue& value) { return is_one(value.from) && value.memory == SlotMemory::Same; });
}

}  // namespace

size_t skip_repeated_layers(const StepTrace& trace, StepMemory& memory, RepeatedLayers& at, size_t op) {
  if (at.next == trace.repeats.size()) return op;
  const TracedLayers& layers = trace.repeats[at.next];
  const size_t since = layers.op - 2 * layers.ops;
  if (op < since || (op - since) % layers.ops != 0) return op;
  at.begins.push_back(static_cast<StorageId>(memory.storages.size()));
  if (at.begins.size() < 3) return op;
  const auto followed = static_cast<uint32_t>(at.begins.size() - 3);  // repeated layers that were not skipped
  const StorageId* begins = &at.begins[followed];
  const uint32_t next = layers.value + followed * layers.values, remaining = layers.count - followed,
                 last = layers.value + (layers.count - 1) * layers.values;
  const size_t end = layers.op + size_t{layers.count} * layers.ops;
  const TwoLayers two{trace, memory, layers.values, next - 2 * layers.values, next - layers.values, begins};
  const bool skips = remaining > 0 && map_repeated_values(two, layers, op) && !are_missed(trace, end, next, last);
  if (remaining > 0 && !skips) return op;
  if (skips) {
    memory.omitted.push_back({.layers = &layers, .followed = followed, .begins = {begins[0], begins[1], begins[2]}});
    for (uint32_t value = last; value < last + layers.values; ++value) {
      memory.storage_of[value] = memory.storage_of[value - remaining * layers.values];
      memory.strides[value] = memory.strides[value - remaining * layers.values];
    }
  }
  ++at.next;
  at.begins.clear();
  return skip_repeated_layers(trace, memory, at, end);
}

}  // namespace tpplan
