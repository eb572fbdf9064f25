// What rank 0 keeps in memory and computes in one training step, counted from the operations: what a manifest says, and
// its readers add up. Parameters, gradients and optimizer state follow from the layouts (measure/measure_memory.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sharding/dtype.h"

namespace tpplan {

// What operations of one name keep for the backward pass. Memory that several keep counts for the first.
struct KeptTensors {
  std::string op;
  uint64_t tensors = 0, bytes = 0;
  bool operator==(const KeptTensors&) const = default;
};

// Floating point operations of products, two for a multiplication and its addition: linear, matmul, attention and their
// kind. What works on elements counts for nothing.
struct MatmulWork {
  DType dtype = 0;
  uint64_t forward = 0, backward = 0;
  uint64_t again = 0;  // the forward ones that `remat` computes a second time
  bool operator==(const MatmulWork&) const = default;
};

// Layers that keep and compute the same: modules whose paths differ in their first number.
struct LayerCosts {
  std::string layers;  // "model.layers.{0..79}"; empty: all that stands in no layer
  uint64_t count = 1;
  uint64_t kept = 0;             // bytes, of one layer
  std::vector<MatmulWork> work;  // of one layer, by dtype
  bool operator==(const LayerCosts&) const = default;
};

struct StepCosts {
  bool is_there = false;          // the operations are known
  uint64_t kept = 0;              // bytes that stand from the forward pass to the backward one
  uint64_t gathered = 0;          // of these: activations that were put together of all ranks' pieces
  uint64_t gathered_weights = 0;  // of these: parameters, over data axes
  uint64_t logits = 0;            // the model's results once more, in float32, as a loss keeps them
  uint64_t transient = 0;         // the most that one operation's backward has at once and nobody keeps: gradients of
                                  // its result and its operands; with `remat` and all that its unit makes again
  std::string transient_op, transient_module;
  std::vector<KeptTensors> by_op;        // that add up to `kept`, the largest first
  std::vector<LayerCosts> layers;        // what stands in no layer first
  std::vector<std::string> unknown_ops;  // of which nobody knows what they keep: all operands and results are counted
  bool operator==(const StepCosts&) const = default;
};

// Of all layers, by dtype.
[[nodiscard]] std::vector<MatmulWork> work_of(const StepCosts& costs);

}  // namespace tpplan
