// Memory and compute of rank 0 in one training step, counted from the traced operations and stored in the manifest.
// Parameters, gradients and optimizer state follow from the layouts (cost/measure_memory.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sharding/dtype.h"

namespace tpplan {

// Tensors that the operations of one name save for backward. Memory that several operations save counts for the first.
struct SavedTensors {
  std::string op;
  uint64_t tensors = 0, bytes = 0;
  bool operator==(const SavedTensors&) const = default;
};

// FLOPs of matmuls (linear, matmul, attention and similar operations); a multiply-add counts as two. Elementwise
// operations do not count.
struct MatmulWork {
  DType dtype = 0;
  uint64_t forward = 0, backward = 0;
  uint64_t again = 0;  // forward FLOPs that `remat` recomputes
  bool operator==(const MatmulWork&) const = default;
};

// Layers with equal costs whose paths differ only in their first number.
struct LayerCosts {
  std::string layers;  // "model.layers.{0..79}"; empty for everything outside layers
  uint64_t count = 1;
  uint64_t saved = 0;            // bytes that one layer saves for backward
  std::vector<MatmulWork> work;  // of one layer, by dtype
  bool operator==(const LayerCosts&) const = default;
};

struct StepCosts {
  bool is_there = false;          // true if all operations are known
  uint64_t saved = 0;             // bytes saved for backward
  uint64_t gathered = 0;          // of these: gathered activations
  uint64_t gathered_weights = 0;  // of these: parameters that are gathered over data axes
  uint64_t logits = 0;            // bytes of the model's outputs in float32, as a loss saves them
  uint64_t transient = 0;         // peak of temporary bytes in one operation's backward: gradients of its result and
                                  // operands; with `remat` also everything that its unit recomputes
  std::string transient_op, transient_module;
  std::vector<SavedTensors> by_op;       // sums to `saved`, the largest first
  std::vector<LayerCosts> layers;        // everything outside layers comes first
  std::vector<std::string> unknown_ops;  // operations with unknown saved tensors: all operands and results count
  bool operator==(const StepCosts&) const = default;
};

// Returns the matmul FLOPs of the whole step, by dtype.
[[nodiscard]] std::vector<MatmulWork> work_of(const StepCosts& costs);

}  // namespace tpplan
