#include "search/step_profile.h"

#include <algorithm>
#include <span>

namespace tpplan {
namespace {

bool is_change(const SpanStage& stage, UnitBuffer buffer, bool is_freed) {
  return stage.changed == buffer && stage.is_freed == is_freed;
}

void raise(int64_t& peak, int64_t to) { peak = std::max(peak, to); }

// The unit before gives its buffer back once the layer's weights are gathered.
void add_forward(LayerMemory& layer, const StagedSpan& span) {
  const auto gathers = std::ranges::find_if(
      span.stages, [](const SpanStage& stage) { return is_change(stage, UnitBuffer::Gathered, false); });
  layer.is_sharded = gathers != span.stages.end();
  if (layer.is_sharded) layer.output = gathers->change;
  bool is_before = layer.is_sharded;
  for (const SpanStage& stage : span.stages) {
    if (is_change(stage, UnitBuffer::Gathered, true)) is_before = false;
    raise(is_before ? layer.gather : layer.forward, stage.peak);
  }
  layer.saved = span.end;
}

void add_backward(LayerMemory& layer, const StagedSpan& span) {
  int64_t* part = layer.is_sharded ? &layer.regather : &layer.backward;
  for (const SpanStage& stage : span.stages) {
    if (is_change(stage, UnitBuffer::Gathered, true)) part = &layer.backward;
    if (is_change(stage, UnitBuffer::Reduced, false)) {
      part = &layer.reduce;
      layer.reduced = stage.change;
    }
    raise(*part, stage.peak);
  }
  layer.freed = span.end;
}

void add_before(EndMemory& ends, const StagedSpan& span) {
  for (const SpanStage& stage : span.stages) {
    if (is_change(stage, UnitBuffer::Gathered, false)) ends.output = stage.change;
    raise(ends.before, ends.begin + stage.peak + stage.buffers);
  }
  ends.begin += span.end;
}

// The buffer of the last all_gather is freed before the loss; then the last layer's weights are gathered again.
void add_loss(EndMemory& ends, const StagedSpan& span) {
  for (const SpanStage& stage : span.stages) {
    int64_t& peak = is_change(stage, UnitBuffer::Gathered, false)            ? ends.prefetch
                    : stage.changed == UnitBuffer::None && stage.buffers > 0 ? ends.tail
                                                                             : ends.loss;
    raise(peak, ends.loss_end + stage.peak);
  }
  ends.loss_end += span.end;
}

void add_after(EndMemory& ends, const StagedSpan& span) {
  for (const SpanStage& stage : span.stages) {
    const bool has_layer = stage.changed == UnitBuffer::None && stage.buffers > 0;
    raise(has_layer ? ends.after : ends.root, ends.after_end + stage.peak + (has_layer ? 0 : stage.buffers));
  }
  ends.after_end += span.end;
}

}  // namespace

StepProfile flat_profile(uint64_t bytes, size_t layers) {
  return {.ends = {.own = static_cast<int64_t>(bytes)}, .layers = std::vector<LayerMemory>(layers)};
}

StepProfile profile_of(const std::vector<StagedSpan>& spans, size_t layers) {
  StepProfile profile{.ends = {.own = spans.front().end}, .layers = std::vector<LayerMemory>(layers)};
  EndMemory& ends = profile.ends;
  size_t ran = 0;  // layers, forward and backward
  for (const StagedSpan& span : std::span(spans).subspan(1)) {
    if (span.phase == StepPhase::Optimizer) {
      for (const SpanStage& stage : span.stages) raise(ends.optimizer, stage.peak);
    } else if (span.layer >= 0 && static_cast<size_t>(span.layer) < layers) {
      (span.phase == StepPhase::Forward ? add_forward : add_backward)(profile.layers[static_cast<size_t>(span.layer)],
                                                                      span);
      ++ran;
    } else if (ran == 0) {
      add_before(ends, span);
    } else if (ran == layers) {
      add_loss(ends, span);
    } else if (ran == 2 * layers) {
      add_after(ends, span);
    }
  }
  return profile;
}

}  // namespace tpplan
