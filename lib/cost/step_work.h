// The kernels that rank 0 runs in a micro-batch, layer by layer, with the sizes that their time depends on. They follow
// from the traced operations, without any figure of the hardware (cost/step_time.h prices them).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/model_graph.h"
#include "sharding/collective_call.h"
#include "topology/run.h"
#include "walk/state/step_trace.h"

namespace tpplan {

enum class KernelKind : uint8_t { Matmul, Attention, Elementwise };

// A kernel of the forward pass and its share of the backward pass. Bytes are read or written ones.
struct Kernel {
  KernelKind kind = KernelKind::Elementwise;
  DType dtype = 0;               // of the result
  bool is_layer_linear = false;  // a linear of a layer, which `fp8` casts
  bool shares_input = false;     // another linear before it has the same input
  double batch = 1;              // Matmul: products of [m, k] with [k, n]
  double m = 0, n = 0, k = 0;
  double flops = 0;  // forward; Attention: of all scores, whether they are masked or not
  double bytes = 0, backward_bytes = 0;
  double scores = 0;  // Attention: elements of all scores
  double cached = 0;  // Attention: bytes of keys and values, before heads are repeated
  bool has_first_gradient = false, has_second_gradient = false;  // of a matmul's operands
  bool has_backward = false;
  bool again = false;                 // is computed again in the backward pass
  uint32_t op = 0;                    // into StepTrace::ops: its first operation
  std::string_view module{}, name{};  // of this operation: the path of its module, and its own name
};

// A collective of a model axis, which the kernels wait for.
struct BlockingCall {
  CollectiveKind kind{};
  AxisId axis = kNoAxis;
  double bytes = 0;  // payload (sharding/collective_call.h)
  bool backward = false;
  bool again = false;
  std::string_view module{};  // CollectiveCall::module
  double width = 0;           // the last dim of its input
};

// The kernels of one of `count` equal layers, or of everything outside of layers.
struct LayerWork {
  std::string_view stack;
  int64_t number = -1;  // of the first; -1: outside of layers
  uint64_t count = 1;
  std::vector<Kernel> kernels;
  std::vector<BlockingCall> calls;
  double gathered = 0;    // elements of parameters that FSDP gathers, without this rank's share of other axes only
  double replicated = 0;  // elements of parameters that data axes only reduce
};

// A layer of the model, and its work.
struct OrderedLayer {
  std::string_view stack;
  int64_t number = 0;
  uint32_t work = 0;    // into StepWork::layers
  uint32_t op = kNoId;  // into StepTrace::ops: its first operation; kNoId: it has none
};

struct StepWork {
  bool is_there = false;
  std::vector<LayerWork> layers;    // everything outside of layers comes first
  std::vector<OrderedLayer> order;  // every layer, in the order of the forward pass
  double logits = 0;                // elements of the model's outputs on this rank
  DType parameter_dtype = 0;        // of most of them
};

// A trained parameter on rank 0.
struct StepParameter {
  ModuleId module = kNone;
  DType dtype = 0;
  double elements = 0;  // on this rank, as if FSDP had not sharded it
  bool is_gathered = false;
  bool is_shared = false;  // with another module, as the weight of an embedding and a head
};

// What the work is counted from.
struct StepSource {
  const StepTrace& trace;
  const ModelGraph& model;
  std::span<const StepParameter> parameters;
  std::span<const CollectiveCall> calls;  // of the forecast
  const Mesh& mesh;
  std::span<const AxisId> data_axes;
  std::span<const ModuleId> remat{};  // of the plan: layers that are computed again if the run has no checkpointing
};

// Returns the elements of the trained parameters that this rank updates, if `fsdp_ranks` ranks shard those that are
// gathered.
[[nodiscard]] double updated_elements(std::span<const StepParameter> parameters, int64_t fsdp_ranks);

// Returns the work of a micro-batch. Empty if the trace is empty.
[[nodiscard]] StepWork count_step_work(const StepSource& source, const Run& run);

}  // namespace tpplan
