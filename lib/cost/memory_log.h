// The memory of a step over its time, as a function of the number of ranks that shard parameters: a search prices one
// plan on many meshes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tpplan {

// What a tensor is.
enum class TensorUse : uint8_t {
  Parameters,  // of the rank
  Master,      // float32 copies of the parameters
  Optimizer,   // states
  Gradients,   // of the rank: shards under FSDP
  Buckets,     // flat buckets of DDP
  Inputs,      // tokens and targets
  Buffers,
  Gathered,       // weights that FSDP gathers
  AllGather,      // outputs of all_gather that are copied to gathered weights
  ReduceScatter,  // inputs of reduce_scatter and results in its dtype
  FullGradients,  // of gathered weights, before they are reduced
  Saved,          // made in the forward pass, or again in the backward pass
  Loss,           // logits, and what the loss computes from them
  Transient,      // gradients of activations
  Temporary       // of the optimizer
};
inline constexpr size_t kTensorUses = static_cast<size_t>(TensorUse::Temporary) + 1;

using BytesByUse = std::array<uint64_t, kTensorUses>;

enum class StepPhase : uint8_t { Forward, Backward, Optimizer };

// A part of the step: a layer's forward or backward pass, or what is between layers.
struct ReplaySpan {
  StepPhase phase = StepPhase::Forward;
  int64_t layer = -1;          // number in its stack; -1: outside of layers
  uint64_t peak = 0, end = 0;  // bytes
  BytesByUse at_peak{};        // sums to `peak`
};

inline constexpr uint32_t kNoCount = 0xffffffffu;

// Buffers of FSDP that stay alive until the next unit is gathered or reduced.
enum class UnitBuffer : uint8_t { None, Gathered, Reduced };

// What sizes a tensor of shards: the count of elements of the rank's parameter or unit, and the bytes of each.
struct ShardSize {
  uint32_t count = kNoCount;  // into MemoryLog::counts; kNoCount: the size does not depend on the data axes
  double bytes = 0;
  UnitBuffer buffer = UnitBuffer::None;
};

// The elements that a rank has of a parameter or of all parameters of a unit, by the number of ranks that shard them.
struct ShardCount {
  uint64_t elements = 0;          // of the parameter, as if data axes had not sharded it
  uint64_t rows = 0;              // size of the dim that is sharded; 0: none is
  bool is_gathered = false;       // those of all ranks, with the padding
  std::vector<uint32_t> parts{};  // of a unit: the counts of its parameters
};

// Tensors of fixed sizes, and then one that is sized by a count. Bytes are above those at the begin.
struct LoggedChange {
  int64_t peak = 0, end = 0;  // of the tensors of fixed sizes
  ShardSize size;             // of the tensor that is allocated next, or freed; none at the end of a span
  bool frees = false;
};

// The allocations of a step, from which its memory follows for any number of ranks that shard parameters.
struct MemoryLog {
  std::vector<ShardCount> counts;
  std::vector<LoggedChange> changes;
  std::vector<ReplaySpan> spans;  // for the ranks of the logged step
  std::vector<size_t> ends;       // by span: into `changes`
};

// Returns the elements that the rank holds.
[[nodiscard]] uint64_t elements_at(const MemoryLog& log, uint32_t count, int64_t ranks);

// Returns the bytes of elements of `each` bytes.
[[nodiscard]] uint64_t shard_bytes(uint64_t elements, double each);

// Returns the bytes that a tensor takes from CUDA's caching allocator.
[[nodiscard]] uint64_t allocated_bytes(uint64_t bytes);

// A part of a span between changes of the buffers of units. Bytes.
struct SpanStage {
  UnitBuffer changed = UnitBuffer::None;  // at its begin; None: the first one
  bool is_freed = false;                  // otherwise allocated
  int64_t change = 0;                     // bytes of that buffer
  int64_t peak = 0;                       // without buffers, above the begin of the span
  int64_t buffers = 0;                    // of all units
};

struct StagedSpan {
  StepPhase phase = StepPhase::Forward;
  int64_t layer = -1;
  std::vector<SpanStage> stages;
  int64_t end = 0;  // without buffers, above its begin
};

// Returns the spans of the step if `ranks` ranks shard its parameters.
// @pre the logged step shards the same parameters, and over more than one rank if `ranks` is more than 1
[[nodiscard]] std::vector<StagedSpan> stages_at(const MemoryLog& log, int64_t ranks);

// Returns the largest memory of all stages.
[[nodiscard]] uint64_t peak_of(const std::vector<StagedSpan>& spans);

[[nodiscard]] std::string_view to_text(TensorUse as);
[[nodiscard]] std::string_view to_text(StepPhase phase);

}  // namespace tpplan
