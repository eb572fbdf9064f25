// What one rank runs of a step, operation by operation: for who counts its memory and its work (lib/cost). Made on
// request only. Rank 0 stands for all: it has the first piece of everything, which is the largest.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "model/model_graph.h"

namespace tpplan {

// Where a value's memory comes from.
enum class SlotMemory : uint8_t {
  Result,   // of the operation that made it, which says so; or a leaf's
  Same,     // that of `from`: a step that changes what is believed of a value, or its gradient
  Copy,     // a step made it anew, of pieces or a sum
  Gathered  // the same, whole of pieces of other ranks: an activation
};

// A value as rank 0 holds it, by the number of its slot.
struct TracedValue {
  ValueId value = 0;
  std::string_view dtype{};
  uint32_t shape = 0;     // into StepTrace::shapes
  uint32_t from = kNoId;  // of what a step made of it
  ParamId param = kNone;  // it is this parameter, or what a step made of it is
  bool is_leaf = false;   // an input, parameter, buffer or constant, which stands in memory before the step
  bool requires_grad = false;
  SlotMemory memory = SlotMemory::Result;
};

enum class TracedKind : uint8_t { Op, Enter, Exit };

struct TracedOp {
  TracedKind kind = TracedKind::Op;
  uint32_t node = 0;                  // of the graph
  ModuleId module = kNone;            // where it runs; of Enter and Exit the module itself
  uint32_t in_begin = 0, in_end = 0;  // into StepTrace::slots: what it saw; of Enter what the caller gave
  uint32_t out_begin = 0, out_end = 0;
};

// Layers behind one that was walked, which do what it did (walk/repeat_layers.h): of each the operations, values and
// modules are those of the one before, plus so many.
struct TracedLayers {
  uint32_t count = 0;
  uint32_t op = 0, ops = 0;        // where the first begins, into StepTrace::ops; how many each has. The same of the
  uint32_t value = 0, values = 0;  // values
  ModuleId module = 0, modules = 0;
};

struct StepTrace {
  bool is_there = false;
  std::vector<TracedValue> values;
  std::vector<GraphShape> shapes;  // local ones, in the order in which values have them
  std::vector<int64_t> sizes;      // of these
  std::vector<TracedOp> ops;       // in order
  std::vector<uint32_t> slots;
  std::vector<uint32_t> outputs;    // of the model
  std::vector<TracedLayers> alike;  // in order
};

[[nodiscard]] inline std::span<const int64_t> shape_of(const StepTrace& trace, uint32_t value) {
  const GraphShape shape = trace.shapes[trace.values[value].shape];
  return std::span(trace.sizes).subspan(shape.begin, shape.ndim);
}

}  // namespace tpplan
