// The picture of a step that a command has priced.
#pragma once

#include <vector>

#include "commands.h"
#include "cost/memory_log.h"
#include "priced_run.h"
#include "report/step_picture.h"

namespace tpplan {

// Returns the picture of a training step that step_numbers has priced. `spans`: the replay of its memory, if there is
// one (measure_run_memory). The picture refers to the session.
[[nodiscard]] StepPicture draw_step(const Session& session, const Run& run, const PricedRun& priced,
                                    const TrainingMemory& memory, const std::vector<ReplaySpan>& spans);

}  // namespace tpplan
