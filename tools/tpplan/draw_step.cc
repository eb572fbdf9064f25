#include "draw_step.h"

#include "judge/counted_step.h"

namespace tpplan {

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
