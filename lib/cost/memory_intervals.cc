#include <algorithm>

#include "cost/step_timeline.h"

namespace tpplan {
namespace {

// By TensorUse.
constexpr MemoryGroup kGroups[] = {MemoryGroup::Parameters, MemoryGroup::Parameters, MemoryGroup::Optimizer,
                                   MemoryGroup::Gradients,  MemoryGroup::Gradients,  MemoryGroup::Parameters,
                                   MemoryGroup::Parameters, MemoryGroup::Gathered,   MemoryGroup::Gathered,
                                   MemoryGroup::Gathered,   MemoryGroup::Gradients,  MemoryGroup::Saved,
                                   MemoryGroup::Transient,  MemoryGroup::Transient,  MemoryGroup::Transient};
static_assert(std::size(kGroups) == kTensorUses);

StepPhase phase_of(TimelinePhase phase) {
  return phase == TimelinePhase::Forward     ? StepPhase::Forward
         : phase == TimelinePhase::Optimizer ? StepPhase::Optimizer
                                             : StepPhase::Backward;
}

void raise(MemoryInterval& interval, const ReplaySpan& span) {
  if (span.peak <= interval.peak) return;
  interval.peak = span.peak;
  interval.parts = bytes_by_group(span.at_peak);
}

// True if the block runs while the replay is in this span.
bool matches(const TimelineBlock& block, const ReplaySpan& span) {
  return phase_of(block.phase) == span.phase && block.layer == span.layer;
}

// Returns the intervals of the blocks [begin, end) of one micro-batch. A replay span without a block of its own, as
// between layers, belongs to the block before it.
std::vector<MemoryInterval> batch_intervals(const StepTimeline& timeline, size_t begin, size_t end,
                                            std::span<const ReplaySpan> replay) {
  std::vector<MemoryInterval> intervals;
  for (size_t i = begin; i < end; ++i) {
    const TimelineBlock& block = timeline.blocks[i];
    intervals.push_back({.begin = block.begin, .seconds = timeline.spans[block.spans].seconds});
  }
  size_t at = 0;
  for (const ReplaySpan& span : replay) {
    for (size_t next = at; next < intervals.size(); ++next) {
      if (next > at + 1 && span.layer < 0) break;
      if (!matches(timeline.blocks[begin + next], span)) continue;
      at = next;
      break;
    }
    raise(intervals[at], span);
  }
  for (size_t i = 1; i < intervals.size(); ++i) {  // a block that the replay does not separate from the one before
    if (intervals[i].peak > 0) continue;
    intervals[i].peak = intervals[i - 1].peak;
    intervals[i].parts = intervals[i - 1].parts;
  }
  return intervals;
}

}  // namespace

BytesByGroup bytes_by_group(const BytesByUse& bytes) {
  BytesByGroup sums{};
  for (size_t use = 0; use < kTensorUses; ++use) sums[static_cast<size_t>(kGroups[use])] += bytes[use];
  return sums;
}

std::string_view to_text(MemoryGroup group) {
  static constexpr std::string_view kTexts[] = {"parameters",       "optimizer states",  "gradients",
                                                "gathered weights", "saved activations", "transient"};
  static_assert(std::size(kTexts) == kMemoryGroups);
  return kTexts[static_cast<size_t>(group)];
}

// The replay runs one micro-batch and the optimizer. Its first span ends where the forward pass begins.
std::vector<MemoryInterval> memory_intervals(const StepTimeline& timeline, std::span<const ReplaySpan> replay) {
  std::vector<MemoryInterval> intervals;
  if (replay.size() < 2 || timeline.blocks.empty()) return intervals;
  const auto steps = replay.subspan(1);
  const auto optimizer = std::find_if(steps.begin(), steps.end(),
                                      [](const ReplaySpan& span) { return span.phase == StepPhase::Optimizer; });
  const std::span<const ReplaySpan> passes(steps.begin(), optimizer);
  const bool has_optimizer = timeline.blocks.back().phase == TimelinePhase::Optimizer;
  for (size_t begin = 0; begin < timeline.blocks.size();) {
    const int64_t batch = timeline.blocks[begin].batch;
    size_t end = begin;
    while (end < timeline.blocks.size() && timeline.blocks[end].batch == batch) ++end;
    const bool is_last = end == timeline.blocks.size();
    const auto of_batch = batch_intervals(timeline, begin, end, is_last && has_optimizer ? steps : passes);
    intervals.insert(intervals.end(), of_batch.begin(), of_batch.end());
    if (batch == 0 && timeline.folded.count > 0) {
      const auto top =
          std::max_element(of_batch.begin(), of_batch.end(),
                           [](const MemoryInterval& a, const MemoryInterval& b) { return a.peak < b.peak; });
      intervals.push_back({timeline.folded.begin, timeline.folded.seconds, top->peak, top->parts});
    }
    begin = end;
  }
  return intervals;
}

}  // namespace tpplan
