// A training step of rank 0 on a time axis, for pictures: what step_seconds adds up, in the order in which it runs, and
// the memory of the replay (cost/peak_memory.h) over the same time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/memory_pool.h"
#include "cost/step_time.h"

namespace tpplan {

enum class LaneKind : uint8_t {
  Matmuls,      // with the casts of 8-bit ones
  Attention,    // scores, softmax and context
  Elementwise,  // with the loss and FSDP's copies
  Optimizer,    // with clipping
  Waiting,      // kernels wait for a data axis, or both slow each other down
  ModelAxis,    // collectives that kernels wait for
  DataAxis      // collectives that run beside kernels
};

inline constexpr size_t kLaneKinds = static_cast<size_t>(LaneKind::DataAxis) + 1;

// Spans of a lane do not overlap. All lanes except those of data axes fill the step together, without a gap.
struct TimelineLane {
  LaneKind kind = LaneKind::Matmuls;
  AxisId axis = kNoAxis;  // of ModelAxis and DataAxis
};

enum class TimelinePhase : uint8_t { Forward, Recomputed, Backward, Optimizer };
inline constexpr size_t kTimelinePhases = static_cast<size_t>(TimelinePhase::Optimizer) + 1;

struct TimelineSpan {
  uint32_t lane = 0;
  TimelinePhase phase = TimelinePhase::Forward;
  double begin = 0, seconds = 0;    // after the begin of its block
  double bytes = 0;                 // payload of a collective
  std::string_view name{}, module;  // an operation or a collective, and the path of its module
};

// The spans of one pass of a layer, or of what is between layers. Equal layers share them.
struct TimelineSpans {
  double seconds = 0;
  std::vector<TimelineSpan> spans;
};

// One pass of one layer in one micro-batch.
struct TimelineBlock {
  TimelinePhase phase = TimelinePhase::Forward;  // Backward includes Recomputed
  std::string_view stack;                        // of the layer: "model.layers"
  int64_t layer = -1;                            // its number; -1: outside of layers
  int64_t batch = 0;                             // micro-batch
  double begin = 0;
  uint32_t spans = 0;  // into StepTimeline::spans
};

// Micro-batches that repeat the one before them, and have no blocks.
struct FoldedBatches {
  int64_t first = 0, count = 0;
  double begin = 0, seconds = 0;  // of all of them
};

// The text views point into the model and its forecast.
struct StepTimeline {
  std::vector<TimelineLane> lanes;
  std::vector<TimelineSpans> spans;
  std::vector<TimelineBlock> blocks;  // in order
  FoldedBatches folded;               // count 0: none
  int64_t batches = 1;
  double seconds = 0;  // of the step
};

// Returns the timeline of a step. Its `seconds` are those of step_seconds up to rounding.
// @pre missing_figures is empty
[[nodiscard]] StepTimeline step_timeline(const StepSetting& setting, const Topology& topology,
                                         const AssumptionScale& scale);

// Returns the seconds of each lane in the step, with those of folded micro-batches.
[[nodiscard]] std::vector<double> lane_seconds(const StepTimeline& timeline);

// Returns "matmuls", "attention", ..., "tp collectives".
[[nodiscard]] std::string lane_text(const TimelineLane& lane, const Mesh& mesh);
[[nodiscard]] std::string_view to_text(TimelinePhase phase);

// Tensors of a rank, in groups for a picture.
enum class MemoryGroup : uint8_t { Parameters, Optimizer, Gradients, Gathered, Saved, Transient };
inline constexpr size_t kMemoryGroups = static_cast<size_t>(MemoryGroup::Transient) + 1;
using BytesByGroup = std::array<uint64_t, kMemoryGroups>;

// The most memory that a rank has in an interval of the step.
struct MemoryInterval {
  double begin = 0, seconds = 0;
  uint64_t peak = 0;
  BytesByGroup parts{};  // sum to `peak`
};

// Returns the memory over the time of the blocks of a timeline, and of the optimizer. Empty without replay spans.
[[nodiscard]] std::vector<MemoryInterval> memory_intervals(const StepTimeline& timeline,
                                                           std::span<const ReplaySpan> replay);

[[nodiscard]] BytesByGroup bytes_by_group(const BytesByUse& bytes);
[[nodiscard]] std::string_view to_text(MemoryGroup group);

}  // namespace tpplan
