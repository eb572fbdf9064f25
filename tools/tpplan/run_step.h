// `--run` of a command that has compiled a model and a plan: reads the run, prices its step, and draws it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "cost/memory_pool.h"
#include "priced_run.h"
#include "report/step_picture.h"
#include "topology/read_run.h"

namespace tpplan {

// Reads the run file. Options of the command line (`inputs`, and `recipe` if it is not empty) replace its values.
// Without a file the run has the defaults.
[[nodiscard]] RunFile read_run_file(Session& session, const std::string& run, const InputArguments& inputs,
                                    const std::string& recipe);

// Returns the picture of a training step that price_run has priced. `spans`: the replay of its memory, if there is one
// (measure_run_memory). The picture refers to the session.
[[nodiscard]] StepPicture draw_step(const Session& session, const Run& run, const PricedRun& priced,
                                    const TrainingMemory& memory, const std::vector<ReplaySpan>& spans);

}  // namespace tpplan
