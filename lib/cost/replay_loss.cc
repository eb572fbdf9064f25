#include <algorithm>
#include <utility>

#include "cost/replay.h"

namespace tpplan {
namespace {

// The type of a tensor of one element a logit.
enum class LogitType : uint8_t { Model, Loss, Float32 };

// One event of a loss: a tensor is made, or an earlier one, by its index, is freed.
struct LossEvent {
  bool makes = true;
  LogitType type = LogitType::Loss;
  size_t frees = 0;
};

// The tensors of a loss in order. The forward pass frees nothing that its own events do not free; then the logits and
// all except `saved` are freed. The gradient of the logits is the last tensor that remains.
struct LossTensors {
  LossKernel kernel;
  bool casts;   // the logits are converted to another type for the loss
  bool narrow;  // the loss is computed in 16 bits
  std::vector<LossEvent> forward, backward;
  std::vector<size_t> saved;
};

constexpr LossEvent make(LogitType type) { return {.makes = true, .type = type, .frees = 0}; }
constexpr LossEvent drop(size_t index) { return {.makes = false, .type = LogitType::Loss, .frees = index}; }

using enum LogitType;

// Observed with torch's MemTracker (torch 2.13): cross_entropy, and loss_parallel() of torch.distributed.tensor.
const LossTensors kLossRows[] = {
    // float(), log_softmax; nll_loss_backward, log_softmax_backward, its conversion
    {LossKernel::Plain,
     true,
     false,
     {make(Float32), make(Float32)},
     {make(Float32), make(Float32), drop(2), drop(1), make(Model), drop(3)},
     {1}},
    {LossKernel::Plain, false, false, {make(Loss)}, {make(Loss), make(Loss), drop(1), drop(0)}, {0}},
    {LossKernel::Plain, false, true, {make(Loss)}, {make(Loss), make(Loss), drop(1), drop(0)}, {0}},
    // float(), shifted logits, exponentials, logarithms; zeros, exponentials, their sum
    {LossKernel::Parallel,
     true,
     false,
     {make(Float32), make(Float32), make(Float32), drop(2), make(Float32), drop(1)},
     {make(Float32), make(Float32), make(Float32), drop(4), drop(5), make(Model), drop(3), drop(6)},
     {3}},
    {LossKernel::Parallel,
     false,
     false,
     {make(Loss), make(Loss), drop(1), make(Loss), drop(0)},
     {make(Loss), make(Loss), make(Loss), drop(3), drop(4), drop(2)},
     {2}},
    {LossKernel::Parallel,
     false,
     true,
     {make(Float32), make(Float32), make(Float32), drop(2), make(Float32), make(Loss), drop(0), drop(1), drop(3)},
     {make(Loss), make(Loss), make(Loss), drop(5), drop(6), drop(4)},
     {4}},
    // one kernel: the logits, and their gradient
    {LossKernel::Fused, false, false, {}, {make(Model)}, {}},
};

// Parts of the tokens for which the loss's tensors exist at once. The logits of all parts are saved in the model's
// type.
uint64_t parts_of_loss(const Run& run) {
  return run.loss == LossKernel::Chunked ? static_cast<uint64_t>(run.chunks) : 1;
}

const LossTensors& row_of(const Replay& r, DType model, DType loss) {
  const LossKernel kernel = r.in.run.loss == LossKernel::Chunked ? LossKernel::Plain : r.in.run.loss;
  constexpr int kFloat32Bits = 32;
  const bool casts = model != loss, narrow = dtypes()[loss].bits < kFloat32Bits;
  for (const LossTensors& row : kLossRows) {
    if (row.kernel == kernel &&
        (kernel == LossKernel::Fused || (row.casts == (casts && !narrow) && row.narrow == narrow)))
      return row;
  }
  return kLossRows[0];
}

DType loss_type(const Replay& r, DType model) {
  if (r.in.run.loss == LossKernel::Fused) return model;
  return r.in.run.loss_dtype.value_or(dtype_of("float32")) == dtype_of("float32") ? dtype_of("float32") : model;
}

void run_events(Replay& r, const std::vector<LossEvent>& events, uint32_t output, std::vector<BlockId>& blocks) {
  const DType model = dtype_in(r.in.trace, output), loss = loss_type(r, model);
  const uint64_t elements =
      bytes_in(r.in.trace, output) * 8 / std::max<uint64_t>(1, dtypes()[model].bits) / parts_of_loss(r.in.run);
  for (const LossEvent& event : events) {
    if (!event.makes) {
      release(r.pool, std::exchange(blocks[event.frees], kNoBlock));
      continue;
    }
    const DType type = event.type == Model ? model : event.type == Loss ? loss : dtype_of("float32");
    blocks.push_back(allocate(r.pool, byte_size(type, elements), TensorUse::Loss));
  }
}

}  // namespace

void run_loss(Replay& r) {
  if (r.in.trace.outputs.empty()) return;
  const uint32_t output = r.in.trace.outputs[0];
  const StorageId storage = storage_at(r, output);
  if (storage == kNoId) return;
  const DType model = dtype_in(r.in.trace, output);
  const LossTensors& row = row_of(r, model, loss_type(r, model));
  const ReplayEvent nowhere;
  std::vector<BlockId> blocks;
  set_log_place(r, StepPhase::Forward, nowhere, "cross_entropy");
  run_events(r, row.forward, output, blocks);
  const bool is_chunked = r.in.run.loss == LossKernel::Chunked;
  const bool saves_logits = row.saved.empty() || is_chunked;
  if (!saves_logits) release(r.pool, std::exchange(r.block_of[storage], kNoBlock));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (is_chunked || std::ranges::find(row.saved, i) == row.saved.end())
      release(r.pool, std::exchange(blocks[i], kNoBlock));
  }
  set_log_place(r, StepPhase::Backward, nowhere, "cross_entropy");
  run_events(r, row.backward, output, blocks);
  BlockId grad = kNoBlock;
  for (BlockId& block : blocks) {
    if (block != kNoBlock) grad = std::exchange(block, kNoBlock);
  }
  release(r.pool, std::exchange(r.block_of[storage], kNoBlock));
  add_gradient(r, output, {grad, dense_strides(shape_of(r.in.trace, output))});
}

}  // namespace tpplan
