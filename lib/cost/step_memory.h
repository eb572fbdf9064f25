// The memory of the values of a step: their storages, strides and sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/strides.h"
#include "sharding/dtype.h"
#include "walk/state/step_trace.h"

namespace tpplan {

using StorageId = uint32_t;

enum class StorageKind : uint8_t {
  Leaf,      // parameters, buffers, inputs and constants, which exist before the step
  Made,      // by an operation, or at a module boundary
  Gathered,  // an activation after an all_gather
  Weights    // a parameter that is gathered over data axes
};

struct Storage {
  StorageKind kind = StorageKind::Made;
  uint64_t bytes = 0;
};

// Layers that repeat the one before (cost/skip_layers.h): the tables omit their values.
struct SkippedLayers {
  const TracedLayers* layers = nullptr;  // of the trace
  uint32_t followed = 0;                 // number of layers, of TracedLayers::count, that are in the tables
  StorageId begins[3] = {};              // first storages of the last two layers in the tables, and the end of these
};

struct StepMemory {
  std::vector<Storage> storages;
  std::vector<StorageId> storage_of;   // by value of the trace; kNoId if it is unused
  std::vector<Strides> strides;        // by value
  std::vector<SkippedLayers> omitted;  // in order
};

// Return the dtype of a value, and its bytes; kTooManyBytes if they exceed 64 bits.
[[nodiscard]] DType dtype_in(const StepTrace& trace, uint32_t value);
[[nodiscard]] uint64_t bytes_in(const StepTrace& trace, uint32_t value);
[[nodiscard]] StridedShape strided_shape(const StepTrace& trace, const StepMemory& memory, uint32_t value);

}  // namespace tpplan
