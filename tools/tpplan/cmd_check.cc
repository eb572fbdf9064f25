#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "commands.h"
#include "measure/measure_collectives.h"
#include "render/formats.h"
#include "report/render_costs.h"

namespace tpplan {
namespace {

// The input that comes from standard input, or nullptr.
SourceFile* stdin_file(Session& session, const InputArguments& inputs) {
  return inputs.model == "-" ? &session.model : inputs.plan == "-" ? &session.plan : nullptr;
}

// Names of the model are in the first line.
std::string escape_lines(const std::string& text) {
  std::string out;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) out += escape_for_terminal(line) + "\n";
  }
  return out;
}

std::string summary_of(const Session& session) {
  if (exit_status(session.diagnostics) == kExitFine) return summary(session.compilation, session.diagnostics);
  return count_findings(session.diagnostics) + "\n";
}

CollectiveMeasure measured(const Session& session, bool wanted) {
  const Compilation& c = session.compilation;
  return wanted ? measure_collectives(c.judgement.forecast.calls, c.plan.mesh) : CollectiveMeasure{};
}

Costs costs_of(const Session& session, const CollectiveMeasure& measure) {
  const Compilation& c = session.compilation;
  const ForecastGap gap = c.judgement.forecast.gap;
  return {.measure = measure,
          .mesh = c.plan.mesh,
          .batch = c.graph.operations.batch,
          .sequence = c.graph.operations.sequence,
          .has_data_axes = !data_axes_of(c.plan).empty(),
          .has_remat = !c.plan.remat.empty(),
          .unlisted = c.judgement.forecast.unlisted,
          .reason = to_text(gap),
          .help = remedy_of(gap)};
}

}  // namespace

int cmd_check(const CheckArguments& arguments, const CommonArguments& common) {
  Session session;
  const Format* format = find_format(arguments.format);
  if (format == nullptr) {
    const std::string names = join(format_names(), ", ");
    return usage_error(fmt::format("--format {}: formats are {}", escape_for_terminal(arguments.format), names));
  }
  if (arguments.costs && !format->has_costs)
    return usage_error(fmt::format("--costs: format {} has no place for them; human and json have", format->name));
  if (arguments.inputs.examples && !format->for_people)
    return usage_error(fmt::format("--example: format {} has no place for it; human has", format->name));
  SourceFile* from_stdin = stdin_file(session, arguments.inputs);
  if (!arguments.stdin_filename.empty() && from_stdin == nullptr) {
    return usage_error("--stdin-filename: neither the model nor the plan is `-`");
  }
  run_session(session, arguments.inputs, Phase::Manifest, common);
  if (session.usage) return kExitUsage;
  if (!arguments.stdin_filename.empty()) from_stdin->name = arguments.stdin_filename;
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  const CollectiveMeasure measure = measured(session, arguments.costs);
  const Costs costs = costs_of(session, measure);
  const std::string costs_json =
      arguments.costs && !format->for_people ? json_of([&](JsonWriter& json) { write_costs(json, costs); }) : "";
  std::string out = format->render({.diagnostics = session.diagnostics,
                                    .sources = sources_of(session),
                                    .look = look,
                                    .tool = kToolVersion,
                                    .page = embedded_page,
                                    .costs = costs_json});
  if (format->for_people) {
    for (const std::string& example : session.compilation.judgement.forecast.examples) out += escape_lines(example);
  }
  if (format->for_people && !common.quiet) out += summary_of(session);
  if (format->for_people && arguments.costs) out += render_costs(costs, {.color = look.color, .width = look.width});
  return print(STDOUT_FILENO, out) ? exit_status(session.diagnostics) : kExitUsage;
}

}  // namespace tpplan
