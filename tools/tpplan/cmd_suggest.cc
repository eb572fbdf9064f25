#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>

#include "commands.h"
#include "remedy/suggest_meshes.h"
#include "render/render.h"
#include "report/render_suggestion.h"

namespace tpplan {

// Findings are those with the plan's own mesh, with the edits that mend them (remedy/find_remedies.h). They are no
// failure here: whoever asks for a suggestion knows that something is to change.
int cmd_suggest(const SuggestArguments& arguments, const CommonArguments& common) {
  Session session;
  run_session(session, arguments.inputs, Phase::Manifest, common);
  if (session.usage) return kExitUsage;
  const Compilation& c = session.compilation;
  Sources sources = sources_of(session);
  const bool is_read = c.reached >= Phase::Plan && !(c.reached == Phase::Plan && has_errors(session.diagnostics));
  if (!is_read) {
    print_findings(STDERR_FILENO, session.diagnostics, sources, common.color);
    return exit_status(session.diagnostics);
  }
  WalkOptions walk = walk_options(arguments.inputs);
  walk.trace = true;
  const auto trials = suggest_meshes(c.graph, c.plan, walk, arguments.most_ranks, *find_recipe(arguments.recipe));
  const Suggestion suggestion{.model = c.graph.name,
                              .recipe = arguments.recipe,
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
