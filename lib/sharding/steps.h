// What tensors go through in one training step, collective by collective, and what that moves: the one list that the
// manifest says, and that its readers read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sharding/redistribute.h"

namespace tpplan {

// Who sums gradients of parameters over an axis. Module: the modules themselves, in the backward pass; Fsdp, Ddp:
// torch's wrapper around the model; Tpplan: tools/python/tpplan/torch.
enum class GradSummer : uint8_t { Unknown, Module, Fsdp, Ddp, Tpplan };
inline constexpr std::string_view kGradSummerNames[] = {"", "module", "fsdp", "ddp", "tpplan"};  // by GradSummer
static_assert(std::size(kGradSummerNames) == static_cast<size_t>(GradSummer::Tpplan) + 1);

[[nodiscard]] inline std::string_view to_text(GradSummer by) { return kGradSummerNames[static_cast<size_t>(by)]; }

// A sum of a gradient over one axis, by all_reduce or reduce_scatter.
struct GradReduce {
  AxisId axis = kNoAxis;
  CollectiveKind kind{};
  GradSummer by = GradSummer::Unknown;  // in manifests that were written before
  bool operator==(const GradReduce&) const = default;
};

// One collective of a list. What it moves is counted as nccl-tests does, by the larger side of one rank: what
// all_gather puts out, what reduce_scatter and all_to_all take in, the buffer of all_reduce; what a slice leaves.
struct Step {
  Collective collective;
  Placement after;     // of its axis, once it is done
  int64_t pieces = 1;  // the payload is one of so many equal pieces of the tensor, where all cuts are even
  bool operator==(const Step&) const = default;
};

// The steps of a value's redistribution: `collectives` as `redistribute` gives them from `from` on its way to `target`.
[[nodiscard]] std::vector<Step> value_steps(std::span<const Placement> from, std::span<const Collective> collectives,
                                            std::span<const Placement> target, const Mesh& mesh);

// The steps that bring a value, or a gradient, from one layout to another, with an entry for every axis of the mesh:
// what a manifest says, and what its readers hold it to. Nothing where no steps do: to Partial from anything else.
[[nodiscard]] std::optional<std::vector<Step>> steps_between(std::span<const Placement> from,
                                                             std::span<const Placement> to, const Mesh& mesh);

// True where ranks send something in one of the steps; a slice sends nothing.
[[nodiscard]] bool communicates(std::span<const Step> steps);

// How the gradient of a value lies when it comes back to a boundary, and how it goes on from there.
struct GradientLayouts {
  std::vector<Placement> from, to;
  bool operator==(const GradientLayouts&) const = default;
};

// What a boundary does to sums that what stands behind it leaves open in the gradient. Open ones stay so, for a module
// around it to sum.
enum class GradientSums : uint8_t { None, Closed, Open };

// The gradient of a value that goes from `from` to `to`, whose sums over `axis` are open or not: cut as the value is,
// and whole on every rank where the value is Partial (torch 2.13, Redistribute.backward).
[[nodiscard]] GradientLayouts gradient_layouts(std::span<const Placement> from, std::span<const Placement> to,
                                               AxisId axis, GradientSums sums);

// True for the layouts of a gradient of such a value, whatever sums are open.
[[nodiscard]] bool is_gradient_of(const GradientLayouts& gradient, std::span<const Placement> from,
                                  std::span<const Placement> to);

// What a parameter is gathered for, or its gradient reduced for.
enum class StepPart : uint8_t {
  Gather,  // whole along FSDP's axis and data axes, for its module's forward pass and again for the backward one
  Reduce,  // its gradient, summed over the axes that GradReduce names
};

// "gather", "reduce".
[[nodiscard]] std::string_view to_text(StepPart part);

// Reads what to_text writes; false for any other text.
[[nodiscard]] bool find_step_part(std::string_view text, StepPart& part);

// How often a part is done in one training step.
[[nodiscard]] inline uint64_t times_in_a_step(StepPart part) { return part == StepPart::Gather ? 2 : 1; }

struct ParamStep {
  StepPart part{};
  Step step;
  uint64_t elements = 0;  // the payload on rank 0, whose pieces are the largest
  bool operator==(const ParamStep&) const = default;
};

// The steps of a parameter of this shape and sharding: made whole along `gathered`, the data axes and FSDP's, where
// they cut it, then its gradient reduced, scatters first (as torch's hybrid sharding does: what is summed after them is
// smaller). Where axes minor to the one of a step cut its dim already, their pieces are no pieces of what the axis
// cuts: they are gathered before, and cut again. Segments that no axis cuts any more are as if they were not there.
[[nodiscard]] std::vector<ParamStep> param_steps(std::span<const int64_t> shape, const Sharding& sharding,
                                                 std::span<const GradReduce> reductions,
                                                 std::span<const AxisId> gathered, const Mesh& mesh);

// How a parameter's spec changes by one of its steps.
[[nodiscard]] PartitionSpec spec_after(PartitionSpec spec, const Collective& collective);

// How it is cut before its gradient is reduced: axes that scatter it do not cut it yet.
[[nodiscard]] PartitionSpec unscattered(PartitionSpec spec, std::span<const GradReduce> reductions);

// A local shape of the first rank, which holds the most, of a parameter that is cut as `spec` on its way: with uneven
// sizes the first has whole pieces.
[[nodiscard]] std::vector<int64_t> first_local_shape(std::span<const int64_t> shape, const Sharding& sharding,
                                                     const PartitionSpec& spec, const Mesh& mesh);

// How the gradient of a parameter lies before it is reduced: axes that scatter it do not cut it yet, and those that sum
// it are Partial.
[[nodiscard]] std::vector<Placement> unreduced_gradient(const PartitionSpec& spec,
                                                        std::span<const GradReduce> reductions, const Mesh& mesh);

// Bytes of one step that a rank sends over its link when the ranks stand in a ring, of a payload of `bytes`:
// (n - 1) / n of it as often as ring_passes says, rounded down.
[[nodiscard]] uint64_t ring_bytes(CollectiveKind kind, uint64_t bytes, int64_t ranks);

// How often a ring carries the payload: 2 for all_reduce, 0 for slice, 1 for the others (NVIDIA/nccl-tests,
// doc/PERFORMANCE.md).
[[nodiscard]] int ring_passes(CollectiveKind kind);

}  // namespace tpplan
