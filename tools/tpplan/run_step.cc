#include "run_step.h"

#include <algorithm>

#include "inputs.h"
#include "judge/counted_step.h"

namespace tpplan {

RunFile read_run_file(Session& session, const std::string& run, const InputArguments& inputs,
                      const std::string& recipe) {
  if (run.empty()) return {};
  RunFile file = read_run_input(run, session.run, session.diagnostics);
  const auto override = [&file](std::string_view key, bool is_given, auto& value, const auto& own) {
    if (!is_given) return;
    value = own;
    if (std::ranges::find(file.run.given, key) == file.run.given.end()) file.run.given.emplace_back(key);
  };
  override("batch", inputs.batch > 0, file.run.batch, inputs.batch);
  override("sequence", inputs.sequence > 0, file.run.sequence, inputs.sequence);
  override("recipe", !recipe.empty(), file.run.recipe, recipe);
  return file;
}

StepPicture draw_step(const Session& session, const Run& run, const PricedRun& priced, const TrainingMemory& memory,
                      const std::vector<ReplaySpan>& spans) {
  const Compilation& c = session.compilation;
  const CountedStep counted = count_checked_step(c.graph, c.plan, c.plan_result, run);
  const StepSetting setting = setting_of(counted, run, *find_recipe(run.recipe), c.plan.mesh);
  StepPicture picture{.mesh = c.plan.mesh,
                      .topology = priced.topology,
                      .answer = priced.answer,
                      .memory = memory,
                      .timeline = step_timeline(setting, priced.topology, priced.answer.scale),
                      .intervals = {}};
  picture.intervals = memory_intervals(picture.timeline, spans);
  return picture;
}

}  // namespace tpplan
