// Draws the time and the memory of a step: lanes of kernels and collectives, and the bytes of the rank beneath.
#pragma once

#include <cstdint>
#include <string>

#include "report/step_picture.h"

namespace tpplan {

// Returns `part` in percent of `total`; 0 if `total` is 0.
[[nodiscard]] double percent_of(double part, double total);

// The ends of both axes: the same for the two plans of a comparison.
struct StepScale {
  double seconds = 0;
  uint64_t bytes = 0;
};

// Returns the lanes of a step. Equal layers in a row are one rectangle; its height is the share of its time in which
// the lane is busy.
[[nodiscard]] std::string lanes_html(const StepPicture& picture, const StepScale& scale);

// Returns the memory over the same time, with the peak and the size of the device's memory.
[[nodiscard]] std::string curve_html(const StepPicture& picture, const StepScale& scale);

// Returns the spans of the most frequent layer, forward and backward. Empty without layers.
[[nodiscard]] std::string layer_html(const StepPicture& picture);

[[nodiscard]] std::string phase_legend();
[[nodiscard]] std::string group_legend();

// Returns the style class of a phase or of a group of tensors.
[[nodiscard]] std::string_view style_of(TimelinePhase phase);
[[nodiscard]] std::string_view style_of(MemoryGroup group);

// The passes of a layer that StepTimeline::spans has most often; nullptr without layers.
struct LayerPasses {
  const TimelineBlock* forward = nullptr;
  const TimelineBlock* backward = nullptr;
  uint64_t count = 0;  // of equal layers
};
[[nodiscard]] LayerPasses frequent_layer(const StepTimeline& timeline);

}  // namespace tpplan
