// The replay of a step on one rank: the tensors that the forward pass, the backward pass and the optimizer allocate and
// free, in order. Shared by lib/cost/replay_*.cc; peak_memory.h has its result.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cost/memory_pool.h"
#include "cost/recipes.h"
#include "cost/step_memory.h"
#include "manifest/manifest.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "topology/run.h"

namespace tpplan {

// What a replay reads.
struct ReplayInputs {
  const StepTrace& trace;  // of kernel_trace
  const ModelGraph& model;
  const TpPlan& plan;
  const Manifest& manifest;
  const Run& run;
  const Recipe& recipe;
  std::span<const ModuleId> units;  // that FSDP gathers, besides the root
  std::span<const ModuleId> remat;  // of the plan
};

// One event of the forward pass.
enum class ReplayKind : uint8_t {
  Op,     // an operation of the trace
  Move,   // a collective or a copy at a module boundary, which makes a value
  Enter,  // a module begins
  Exit    // a module ends
};

struct ReplayEvent {
  ReplayKind kind = ReplayKind::Op;
  uint32_t at = 0;              // Move: the value; otherwise into StepTrace::ops
  ModuleId module = kNone;      // that is running, or that begins or ends
  std::vector<StorageId> made;  // by this event
  std::vector<StorageId> last;  // used for the last time in the forward pass
};

// A gradient of a value, with the value's shape.
struct GradTensor {
  BlockId block = kNoBlock;
  Strides strides;
};

// A parameter of rank 0.
struct ReplayParam {
  bool is_used = false;            // the trace has it
  bool is_gathered = false;        // FSDP shards it
  bool has_full_gradient = false;  // its gradient is that of all ranks' shards
  uint32_t unit = 0;               // into Replay::units
  uint32_t uses = 0;               // operations that add to its gradient and have not run yet
  uint64_t shard_elements = 0;     // elements of the rank's shard, padded to the ranks
  uint64_t full = 0;               // elements after gathering
  GradTensor grad;                 // collected so far
};

// Modules whose parameters FSDP gathers together. The first is the root.
struct ReplayUnit {
  ModuleId module = kNone;                        // kNone: the root
  uint64_t gathered = 0;                          // bytes of the gathered weights
  uint64_t shard_elements = 0;                    // elements of the rank's shards
  BlockId weights = kNoBlock, output = kNoBlock;  // gathered; the output of all_gather
};

// Layers that are computed again in the backward pass: their events, and the last one that saves something.
struct ReplayLayer {
  size_t enter = 0, exit = 0;
  size_t last_saving = 0;
};

struct Replay {
  const ReplayInputs& in;
  StepMemory memory;
  MemoryPool pool;
  StepPlace place;
  std::vector<ReplayEvent> events;
  std::vector<ReplayLayer> layers;
  std::vector<uint32_t> layer_at;  // by event: into `layers` at Enter and Exit of a layer; kNoId otherwise
  std::vector<uint32_t> inside;    // by event: into `layers`, kNoId outside
  std::vector<BlockId> block_of;   // by storage: that is alive
  std::vector<BlockId> cached;     // by storage: saved by selective checkpointing until the layer is computed again
  std::vector<std::vector<BlockId>> saved;      // by event: for its backward pass
  std::vector<uint8_t> is_saved_op;             // by event: selective checkpointing saves its results
  std::vector<std::vector<StorageId>> sources;  // by storage: from which fused kernels compute it again; empty: saved
  std::vector<GradTensor> grads;                // by value
  std::vector<ReplayParam> params;              // by ParamId
  std::vector<ReplayUnit> units;
  std::vector<uint32_t> unit_of;      // by module: of `units`, kNoId
  BlockId pending_output = kNoBlock;  // the all_gather output of the unit before, in the forward pass
  BlockId pending_reduce = kNoBlock;  // the reduce_scatter input of the unit before
  std::vector<BlockId> shards;        // gradients of the rank that reduce_scatter made
  bool has_gradients = false;         // of earlier micro-batches, or of buffers that exist in advance
  double shard_bytes = 0;             // of one element of the rank's parameters
  double gather_bytes = 0, reduce_bytes = 0;
  int64_t ranks = 1;  // of FSDP's axis
  MemoryLog log;      // `counts`: of parameters by ParamId, then two for each unit
  StepPhase span_phase = StepPhase::Forward;
  int64_t span_layer = -1;
};

// Sets what the log of the peak says of the current operation.
void set_log_place(Replay& r, StepPhase phase, const ReplayEvent& event, std::string_view operation = {});

// Ends the current part of the step, and begins another one.
void begin_span(Replay& r, StepPhase phase, int64_t layer);

// Returns the number of the layer whose Enter or Exit the event is; -1 if it is another event.
[[nodiscard]] int64_t layer_of_event(const Replay& r, const ReplayEvent& event);

// The value whose memory a value shares unchanged across module boundaries.
[[nodiscard]] uint32_t value_with_same_memory(const StepTrace& trace, uint32_t value);

// The storage of a value; kNoId for one that only a chain of boundary steps passes through.
[[nodiscard]] StorageId storage_at(const Replay& r, uint32_t value);

[[nodiscard]] std::span<const uint32_t> operands_of(const Replay& r, const ReplayEvent& event);
[[nodiscard]] std::span<const uint32_t> results_of(const Replay& r, const ReplayEvent& event);

// Fills `events`, `layers` and the tables by event.
void build_events(Replay& r);

// Sets the sources of what an event makes: elementwise results can be computed again, except residuals.
void set_recompute_sources(Replay& r, const ReplayEvent& event);
// True if the backward pass of an event computes a tensor again that it would save otherwise.
[[nodiscard]] bool is_recomputed_by_fusion(const Replay& r, size_t event, StorageId storage);

// Runs the events of [begin, end) of the forward pass. `again`: of a layer in the backward pass.
void run_forward(Replay& r, size_t begin, size_t end, bool again);

// Returns the number of scores that attention writes to memory; 0 for other operations and under flash kernels.
[[nodiscard]] uint64_t score_elements(const Replay& r, size_t event);

// Computes a layer again, up to the last tensor that its backward pass needs (torch's early stop).
void run_layer_again(Replay& r, ReplayLayer& layer);

// Counts the operations that add to the gradient of each parameter (ReplayParam::uses).
void count_uses(Replay& r);

// Runs the backward pass of all events, from the gradients of the model's outputs on.
void run_backward(Replay& r);

// Adds the gradients that an operation computes for its operands; releases those of its results.
void run_derivative(Replay& r, size_t event);

// Adds a gradient to those of a value or a parameter. Takes over the holder of `grad`.
void add_gradient(Replay& r, uint32_t value, GradTensor grad);

// FSDP: gathers and reductions.
void build_units(Replay& r);
// Returns a new tensor of a shard; without a count it has no bytes. @pre `size` has a count
[[nodiscard]] BlockId allocate_shard(Replay& r, const ShardSize& size, TensorUse as);
void gather_root(Replay& r);
void gather_unit(Replay& r, ModuleId module);
void free_unit_after_forward(Replay& r, ModuleId module);
void end_forward(Replay& r);
void begin_backward(Replay& r);
void gather_for_backward(Replay& r, ModuleId module);
void reduce_unit(Replay& r, uint32_t unit);

// Runs the loss: from the logits to their gradient.
void run_loss(Replay& r);

}  // namespace tpplan
