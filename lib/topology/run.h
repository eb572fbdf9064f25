// How a training or decode step runs: what neither the plan nor the hardware determines (schema tpplan.run/1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sharding/dtype.h"

namespace tpplan {

// Which results of a layer are kept for the backward pass; all others are computed again.
enum class Checkpointing : uint8_t {
  None,         // all
  Full,         // the inputs of each layer
  Every,        // every Nth layer as Full (layers N-1, 2N-1, ...), the others as None
  Save,         // those of the operations in `Run::operations`
  Recompute,    // all except those of the operations in `Run::operations`
  SelectiveOps  // torchtitan's "selective per op": attention, reduce_scatter, the 1st, 3rd, ... aten.mm of a layer
};

enum CheckpointedOps : uint8_t {
  kSaveLinear = 1,
  kSaveEverySecondLinear = 2,  // the 1st, 3rd, ... of a layer in order of execution
  kSaveAttention = 4,          // scores, softmax and context
  kSaveCollectives = 8         // of tp
};

enum class Compiled : uint8_t { Eager, Kernels, FullStep };  // Kernels: hand-fused norms, activations and loss
enum class AttentionKernel : uint8_t { Flash, Unfused };
enum class LossKernel : uint8_t { Plain, Fused, Parallel, Chunked };
enum class Fp8 : uint8_t { None, Tensorwise, Rowwise, Delayed };
enum class OptimizerKernel : uint8_t { Foreach, Fused };

// Every key has a default; `given` tells the keys that the file or the command line has.
struct Run {
  int64_t batch = 0, sequence = 0;  // of one rank of the data axes and one micro-batch; 0: as the model was exported
  int64_t accumulation = 1;         // micro-batches of a step
  std::string recipe = "adamw";     // a name of cost/recipes.h
  Checkpointing checkpointing = Checkpointing::None;
  int64_t every = 1;       // of Checkpointing::Every
  uint8_t operations = 0;  // of CheckpointedOps
  Compiled compiled = Compiled::Eager;
  AttentionKernel attention = AttentionKernel::Flash;
  bool causal = true;
  LossKernel loss = LossKernel::Plain;
  int64_t chunks = 1;                 // of LossKernel::Chunked
  std::optional<DType> loss_dtype;    // of the logits that cross_entropy gets; unset: float32
  std::optional<DType> gather_dtype;  // of the weights that fsdp gathers; unset: the model's
  std::optional<DType> reduce_dtype;  // of the gradients that data axes reduce; unset: float32
  bool reshard_after_forward = true;
  Fp8 fp8 = Fp8::None;
  bool async_tp = false;
  OptimizerKernel optimizer = OptimizerKernel::Foreach;
  std::vector<std::string> given;
};

}  // namespace tpplan
