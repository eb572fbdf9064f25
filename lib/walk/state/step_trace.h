// The operations that one rank runs in a step, for estimates of memory and work (lib/cost). Written on request only.
// Rank 0 represents all ranks, because its shards are the largest.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/model_graph.h"
#include "model/op_graph.h"

namespace tpplan {

// The origin of a value's memory.
enum class SlotMemory : uint8_t {
  Result,   // allocated by the operation that computes it, or of a leaf
  Same,     // shares memory with `from`: the step changes the declared placement or the gradient only
  Copy,     // allocated by a step for a shard or a sum
  Gathered  // allocated by a step for the full tensor gathered from shards: an activation
};

// A value as rank 0 holds it, indexed by its slot.
struct TracedValue {
  ValueId value = 0;
  std::string_view dtype{};
  uint32_t shape = 0;     // into StepTrace::shapes
  uint32_t from = kNoId;  // the slot that a step made it from
  ParamId param = kNone;  // it is this parameter, or a step made it from the parameter
  bool is_leaf = false;   // an input, parameter, buffer or constant, allocated before the step
  bool requires_grad = false;
  SlotMemory memory = SlotMemory::Result;
};

enum class TracedKind : uint8_t { Op, Enter, Exit };

struct TracedOp {
  TracedKind kind = TracedKind::Op;
  uint32_t node = 0;                  // of the graph
  ModuleId module = kNone;            // the current module; of Enter and Exit the module itself
  uint32_t in_begin = 0, in_end = 0;  // into StepTrace::slots: its operands; of Enter the arguments
  uint32_t out_begin = 0, out_end = 0;
};

// Layers that repeat a walked one (walk/run/repeat_layers.h). The ids of the operations, values and modules of each
// are those of the previous layer plus `ops`, `values` and `modules`.
struct TracedLayers {
  uint32_t count = 0;
  uint32_t op = 0, ops = 0;        // begin of the first in StepTrace::ops; count of each
  uint32_t value = 0, values = 0;  // likewise
  ModuleId module = 0, modules = 0;
};

struct StepTrace {
  bool is_there = false;
  std::vector<TracedValue> values;
  std::vector<GraphShape> shapes;  // local shapes, in the order of the values that have them
  std::vector<int64_t> sizes;      // of the shapes
  std::vector<TracedOp> ops;       // in execution order
  std::vector<uint32_t> slots;
  std::vector<uint32_t> outputs;      // of the model
  std::vector<TracedLayers> repeats;  // in execution order
};

[[nodiscard]] inline std::span<const int64_t> shape_of(const StepTrace& trace, uint32_t value) {
  const GraphShape shape = trace.shapes[trace.values[value].shape];
  return std::span(trace.sizes).subspan(shape.begin, shape.ndim);
}

}  // namespace tpplan
