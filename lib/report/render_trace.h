// Writes a step in Chrome's trace event format, which Perfetto and chrome://tracing open.
#pragma once

#include "base/write_file.h"
#include "report/step_picture.h"

namespace tpplan {

// Writes complete events ("X") of rank 0 in microseconds, a thread for each lane and one for the layers, and counter
// events ("C") of its memory in bytes. Returns false as soon as the sink returns false.
// Format: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
[[nodiscard]] bool render_trace(const StepPicture& picture, const Sink& sink);

}  // namespace tpplan
