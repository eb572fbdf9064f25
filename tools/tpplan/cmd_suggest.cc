#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "commands.h"
#include "render/render.h"
#include "report/render_suggestion.h"
#include "suggest/suggest_meshes.h"

namespace tpplan {

// Prints the diagnostics with the mesh of the plan, with the edits that fix them (suggest/find_fixes.h), and the tried
// meshes. Diagnostics are not a failure here, because the plan is expected to change.
int cmd_suggest(const SuggestArguments& arguments, const CommonArguments& common) {
  Session session;
  run_session(session, arguments.inputs, Phase::Manifest, common);
  if (session.usage) return kExitUsage;
  const Compilation& c = session.compilation;
  Sources sources = sources_of(session);
  const bool is_read = c.reached >= Phase::Plan && !(c.reached == Phase::Plan && has_errors(session.diagnostics));
  if (!is_read) {
    print_diagnostics(STDERR_FILENO, session.diagnostics, sources, common.color);
    return exit_status(session.diagnostics);
  }
  WalkOptions walk = walk_options(arguments.inputs);
  walk.trace = true;
  Checker checker = make_checker(c.graph);
  const auto trials = suggest_meshes(checker, c.plan, walk, arguments.most_ranks, *find_recipe(arguments.recipe));
  const Suggestion suggestion{.model = c.graph.name,
                              .recipe = walk.infer ? std::string_view("none") : arguments.recipe,
                              .infer = walk.infer,
                              .axis = main_axis(c.plan),
                              .trials = trials,
                              .findings = session.diagnostics};
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  const bool printed =
      arguments.format == "json"
          ? print_raw(STDOUT_FILENO, suggestion_json(suggestion, kToolVersion))
          : print(STDOUT_FILENO,
                  render_human(session.diagnostics, sources, look) + render_suggestion(suggestion, look.width),
                  {.color = look.color});
  if (!printed) return kExitUsage;
  return std::ranges::any_of(trials, &MeshTrial::is_right) ? kExitFine : kExitContent;
}

}  // namespace tpplan
