// In whose memory each value of a step stands: views share their operand's, everything else has its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/op_effects.h"
#include "cost/strides.h"
#include "sharding/dtype.h"
#include "walk/step_trace.h"

namespace tpplan {

using StorageId = uint32_t;

enum class StorageKind : uint8_t {
  Leaf,      // parameters, buffers, inputs and constants: there before the step
  Made,      // by an operation, or by a step at a boundary
  Gathered,  // an activation that ranks put together
  Weights    // a parameter that was gathered over data axes
};

struct Storage {
  StorageKind kind = StorageKind::Made;
  uint64_t bytes = 0;
};

// Layers that do what the one before did (cost/leave_out.h): their values are not in the tables.
struct LeftOut {
  const TracedLayers* layers = nullptr;  // of the trace
  uint32_t followed = 0;                 // of TracedLayers::count, all the same
  StorageId begins[3] = {};              // how many storages there were where the last two that were followed began,
                                         // and behind them
};

struct StepMemory {
  std::vector<Storage> storages;
  std::vector<StorageId> storage_of;      // by value of the trace, kNoId where nothing uses it
  std::vector<Strides> strides;           // by value
  std::vector<const OpEffects*> effects;  // by operation of the trace; nullptr: not known
  std::vector<LeftOut> left_out;          // in order
};

// `each_layer`: leaves none out.
[[nodiscard]] StepMemory follow_memory(const StepTrace& trace, const OpGraph& graph, bool each_layer);

// What a value is, and takes: kTooManyBytes where 64 bits do not hold it.
[[nodiscard]] DType dtype_in(const StepTrace& trace, uint32_t value);
[[nodiscard]] uint64_t bytes_in(const StepTrace& trace, uint32_t value);
[[nodiscard]] Laid laid_of(const StepTrace& trace, const StepMemory& memory, uint32_t value);

}  // namespace tpplan
