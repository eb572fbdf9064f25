// The collectives of values, parameters and gradients in one training step, and the bytes they move, as the manifest
// lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sharding/redistribute.h"

namespace tpplan {

// The code that reduces parameter gradients over an axis. Module: the modules, in their backward pass; Fsdp, Ddp:
// torch's wrapper around the model; Tpplan: tools/python/tpplan/torch.
enum class GradReducer : uint8_t { Module, Fsdp, Ddp, Tpplan };
inline constexpr std::string_view kGradReducerNames[] = {"module", "fsdp", "ddp", "tpplan"};  // by GradReducer
static_assert(std::size(kGradReducerNames) == static_cast<size_t>(GradReducer::Tpplan) + 1);

[[nodiscard]] inline std::string_view to_text(GradReducer by) { return kGradReducerNames[static_cast<size_t>(by)]; }

// The reduction of a gradient over one axis, by all_reduce or reduce_scatter.
struct GradReduce {
  AxisId axis = kNoAxis;
  CollectiveKind kind{};
  GradReducer by = GradReducer::Module;
  bool operator==(const GradReduce&) const = default;
};

// One collective of a list. Its payload is the larger buffer of one rank, as nccl-tests counts: the output of
// all_gather, the input of reduce_scatter and all_to_all, the buffer of all_reduce; the output of a slice.
struct Step {
  Collective collective;
  Placement after;     // placement of its axis after the step
  int64_t pieces = 1;  // the payload is 1 / pieces of the tensor, if all shards are even
  bool operator==(const Step&) const = default;
};

// Returns the steps of a redistribution of a value from `from` to `target`. @pre `collectives` is redistribute(from,
// target)
[[nodiscard]] std::vector<Step> value_steps(std::span<const Placement> from, std::span<const Collective> collectives,
                                            std::span<const Placement> target, const Mesh& mesh);

// Returns the steps that redistribute a value or gradient between two layouts, which have an entry for every mesh axis:
// the manifest lists these steps, its readers check them. Returns nullopt from any other placement to Partial.
[[nodiscard]] std::optional<std::vector<Step>> steps_between(std::span<const Placement> from,
                                                             std::span<const Placement> to, const Mesh& mesh);

// True if a step communicates; a slice does not.
[[nodiscard]] bool communicates(std::span<const Step> steps);

// The layouts of a value's gradient in the backward pass: `from` when it reaches the module boundary, `to` after the
// boundary.
struct GradientLayouts {
  std::vector<Placement> from, to;
  bool operator==(const GradientLayouts&) const = default;
};

// The treatment of a partial gradient at a boundary. None: the gradient is not partial. Reduced: the boundary reduces
// it. Partial: the boundary passes it on, and an enclosing module reduces it.
enum class GradientReduction : uint8_t { None, Reduced, Partial };

// Returns the gradient layouts of a value that is redistributed from `from` to `to`; `reduction` states whether the
// gradient is partial over `axis`. It is sharded as the value is, and Replicate if the value is Partial (torch 2.13,
// Redistribute.backward).
[[nodiscard]] GradientLayouts gradient_layouts(std::span<const Placement> from, std::span<const Placement> to,
                                               AxisId axis, GradientReduction reduction);

// True if the layouts are those of a gradient of a value that is redistributed from `from` to `to`, partial or not.
[[nodiscard]] bool is_gradient_of(const GradientLayouts& gradient, std::span<const Placement> from,
                                  std::span<const Placement> to);

// The two kinds of communication of a parameter.
enum class StepPart : uint8_t {
  Gather,  // of the parameter along the FSDP and data axes, for the forward pass and again for the backward pass
  Reduce,  // of its gradient over the axes in GradReduce
};

// Returns "gather" or "reduce".
[[nodiscard]] std::string_view to_text(StepPart part);

// Parses the output of to_text. Returns false for any other text.
[[nodiscard]] bool find_step_part(std::string_view text, StepPart& part);

// Returns how often one training step communicates this part.
[[nodiscard]] inline uint64_t times_in_a_step(StepPart part) { return part == StepPart::Gather ? 2 : 1; }

struct ParamStep {
  StepPart part{};
  Step step;
  uint64_t elements = 0;  // payload on rank 0, which has the largest shards
  bool operator==(const ParamStep&) const = default;
};

// Returns the steps of a parameter: it is gathered along `gathered` (the data axes and FSDP's that shard it), then its
// gradient is reduced. reduce_scatters come first, as in torch's hybrid sharding, because they make the later
// all_reduces smaller. Axes minor to that of a step are gathered before the step and sharded again after it, if they
// shard the same dim: a collective over a major axis would otherwise join shards that are not adjacent. Segments of a
// dim that is no longer sharded are ignored.
[[nodiscard]] std::vector<ParamStep> param_steps(std::span<const int64_t> shape, const Sharding& sharding,
                                                 std::span<const GradReduce> reductions,
                                                 std::span<const AxisId> gathered, const Mesh& mesh);

// Returns the spec of a parameter after one of its steps.
[[nodiscard]] PartitionSpec spec_after(PartitionSpec spec, const Collective& collective);

// Returns the spec of the gradient before it is reduced: without the axes whose reduce_scatter has yet to shard it.
[[nodiscard]] PartitionSpec spec_before_scatter(PartitionSpec spec, std::span<const GradReduce> reductions);

// Returns the local shape on rank 0, which has the largest shards, of a parameter whose current spec is `spec`.
[[nodiscard]] std::vector<int64_t> rank0_local_shape(std::span<const int64_t> shape, const Sharding& sharding,
                                                     const PartitionSpec& spec, const Mesh& mesh);

// Returns the layout of a parameter's gradient before it is reduced: Partial on the axes that reduce it, and not yet
// sharded by those that scatter it.
[[nodiscard]] std::vector<Placement> unreduced_gradient(const PartitionSpec& spec,
                                                        std::span<const GradReduce> reductions, const Mesh& mesh);

// Returns the bytes that a rank sends in a ring algorithm for a payload of `bytes`: ring_passes * (n - 1) / n of it,
// rounded down.
[[nodiscard]] uint64_t ring_bytes(CollectiveKind kind, uint64_t bytes, int64_t ranks);

// Returns how often a ring sends the payload around: 2 for all_reduce, 0 for slice, 1 for the others
// (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
[[nodiscard]] int ring_passes(CollectiveKind kind);

}  // namespace tpplan
