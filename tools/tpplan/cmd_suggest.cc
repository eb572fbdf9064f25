#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "commands.h"
#include "cost/check_run.h"
#include "priced_run.h"
#include "render/render.h"
#include "report/render_run.h"
#include "report/render_suggestion.h"
#include "suggest/suggest_meshes.h"

namespace tpplan {

namespace {

// Settles the run for the plan and fits the topology's figures to its measured steps. Reports contradictions and
// topologies that do not suit the plan's mesh in the session's diagnostics.
CostInputs cost_inputs(Session& session, bool infer, RunFile& run) {
  const TpPlan& plan = session.compilation.plan;
  CostInputs inputs{.run = run.run, .speeds = session.speeds, .infer = infer};
  complete_run(run, plan, session.compilation.graph.operations, session.diagnostics);
  if (session.speeds.empty()) return inputs;
  const Topology topology = read_speeds(session.speeds, plan.mesh, session.diagnostics);
  if (!has_errors(session.diagnostics)) inputs.scale = fitted_scale(session, topology);
  return inputs;
}

}  // namespace

// Prints the diagnostics with the mesh of the plan, with the edits that fix them (suggest/find_fixes.h), and the tried
// meshes with the costs of a step. Diagnostics are not a failure here, because the plan is expected to change.
int cmd_suggest(const SuggestArguments& arguments, const CommonArguments& common) {
  Session session;
  InputArguments inputs = arguments.inputs;
  RunFile run = read_session_run(session, arguments.run, arguments.recipe, inputs);
  std::ignore = read_speed_files(arguments.speeds, 4, session.speeds, session.diagnostics);
  const bool has_files = !has_errors(session.diagnostics);
  if (has_files) run_session(session, inputs, Phase::Manifest, common);
  if (session.usage) return kExitUsage;
  const Compilation& c = session.compilation;
  Sources sources = sources_of(session);
  const auto reject = [&] {
    print_diagnostics(STDERR_FILENO, session.diagnostics, sources, common.color);
    return exit_status(session.diagnostics);
  };
  if (!has_files || c.reached < Phase::Plan || (c.reached == Phase::Plan && has_errors(session.diagnostics)))
    return reject();
  const bool has_run = !arguments.run.empty() || !arguments.speeds.empty();
  Diagnostics of_plan = std::exchange(session.diagnostics, {});  // other sizes can fix them
  WalkOptions walk = walk_options(inputs);
  walk.trace = true;
  const CostInputs step = has_run ? cost_inputs(session, walk.infer, run) : CostInputs{};
  if (has_errors(session.diagnostics)) return reject();
  of_plan.list.insert(of_plan.list.end(), session.diagnostics.list.begin(), session.diagnostics.list.end());
  Checker checker = make_checker(c.graph);
  const auto trials = suggest_meshes(checker, c.plan, walk, arguments.most_ranks, *find_recipe(run.run.recipe),
                                     has_run ? &step : nullptr);
  const Suggestion suggestion{.model = c.graph.name,
                              .recipe = walk.infer ? std::string_view("none") : std::string_view(run.run.recipe),
                              .infer = walk.infer,
                              .axis = main_axis(c.plan),
                              .trials = trials,
                              .run = has_run ? &run.run : nullptr,
                              .is_timed = !arguments.speeds.empty(),
                              .findings = of_plan};
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  const std::string of_run = has_run ? render_run(run.run, {.color = look.color, .width = look.width}) : std::string();
  const bool printed =
      arguments.format == "json"
          ? print_raw(STDOUT_FILENO, suggestion_json(suggestion, kToolVersion))
          : print(STDOUT_FILENO,
                  render_human(of_plan, sources, look) + render_suggestion(suggestion, look.width) + of_run,
                  {.color = look.color});
  if (!printed) return kExitUsage;
  return std::ranges::any_of(trials, &MeshTrial::is_right) ? kExitFine : kExitContent;
}

}  // namespace tpplan
