#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "check_project.h"
#include "commands.h"
#include "fix_plan.h"
#include "inputs.h"
#include "match/lint_dialects.h"
#include "measure/measure_collectives.h"
#include "measure/measure_time.h"
#include "measure/measure_training.h"
#include "render/formats.h"
#include "report/render_costs.h"
#include "report/render_step.h"
#include "repository_path.h"
#include "suggested_rules.h"
#include "timed_step.h"
#include "use_baseline.h"

namespace tpplan {
namespace {

// The input that comes from standard input, or nullptr.
SourceFile* stdin_file(Session& session, const InputArguments& inputs) {
  return inputs.model == "-" ? &session.model : inputs.plan == "-" ? &session.plan : nullptr;
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
          .units_axis = c.plan.fsdp && !c.plan.fsdp->units.empty() ? c.plan.fsdp->axis : kNoAxis,
          .unlisted = c.judgement.forecast.unlisted,
          .reason = to_text(gap),
          .help = remedy_of(gap)};
}

// Memory and time of a step, where the plan is right.
struct StepNumbers {
  TrainingMemory memory;
  std::optional<TimedStep> timed;
  bool has_memory = false;
};

// What the files of speeds have wrong is among the session's findings.
StepNumbers step_numbers(Session& session, const CheckArguments& arguments) {
  StepNumbers numbers;
  const Compilation& c = session.compilation;
  if (c.reached != Phase::Manifest || has_errors(session.diagnostics)) return numbers;
  const Recipe* recipe = find_recipe(arguments.recipe.empty() ? kDefaultRecipe : std::string_view(arguments.recipe));
  numbers.memory = measure_training(c.manifest, *recipe);
  numbers.has_memory = true;
  if (arguments.speeds.empty() || !read_speed_files(arguments.speeds, 3, session.speeds, session.diagnostics))
    return numbers;
  numbers.timed = time_manifest(c.manifest, session.speeds, session.diagnostics);
  return numbers;
}

void write_cell(JsonWriter& json, const ExampleCell& cell) {
  if (!cell.text.empty()) return write_value(json, nullptr);
  write_array(json, cell.numbers, [&](double number) { write_json(json, number_text(number)); });
}

// The member `examples` of schemas/diagnostics.schema.json.
std::string examples_member(const std::vector<Example>& examples) {
  JsonWriter json;
  write_array(json, examples, [&](const Example& example) {
    begin_object(json);
    write_member(json, "code", kind_of(example.code).name);
    write_member(json, "module", example.path);
    write_member(json, "operation", example.operation);
    write_member(json, "shows", example.in_shapes ? "shapes" : "numbers");
    if (example.in_shapes) {
      write_member(json, "mesh", example.mesh);
      if (example.batch > 0) write_member(json, "batch", example.batch);
      if (example.sequence > 0) write_member(json, "sequence", example.sequence);
    }
    write_key(json, "ranks");
    write_array(json, example.ranks, [&](size_t rank) { write_value(json, rank); });
    write_key(json, "rows");
    write_array(json, example.rows, [&](const ExampleRow& row) {
      begin_object(json);
      write_member(json, "name", row.name);
      write_key(json, "ranks");
      write_array(json, row.ranks, [&](const ExampleCell& cell) { write_cell(json, cell); });
      write_key(json, "whole");
      write_cell(json, row.whole);
      end_object(json);
    });
    write_member(json, "conclusion", example.conclusion);
    end_object(json);
  });
  return std::move(json.out);
}

// Without a model and a plan. What asks for one plan has no place there.
int check_settings(const CheckArguments& arguments, const Format& format, const CommonArguments& common) {
  if (!arguments.inputs.model.empty())
    return usage_error("PLAN is required\nRun `tpplan check --help` for what there is.");
  if (arguments.project.checks.empty())
    return usage_error(
        "MODEL is required: there are no `checks` in a .tpplan.yaml here\nRun `tpplan check --help` for what there "
        "is.");
  const std::pair<std::string_view, bool> single[] = {{"--mesh", !arguments.inputs.mesh.empty()},
                                                      {"--fix", arguments.fix},
                                                      {"--diff", arguments.diff},
                                                      {"--costs", arguments.costs},
                                                      {"--recipe", !arguments.recipe.empty()},
                                                      {"--topology", !arguments.speeds.empty()},
                                                      {"--example", arguments.inputs.examples},
                                                      {"--suggest", arguments.suggest},
                                                      {"--stdin-filename", !arguments.stdin_filename.empty()}};
  for (const auto& [name, is_given] : single) {
    if (is_given) return usage_error(fmt::format("{} is for one plan: name MODEL and PLAN", name));
  }
  BaselineUse baseline;
  if (const int status = open_baseline(arguments, common, baseline); status != kExitFine) return status;
  return check_project(arguments, format, common, baseline);
}

}  // namespace

int cmd_check(const CheckArguments& arguments, const CommonArguments& common) {
  Session session;
  const Format* format = find_format(arguments.format);
  if (format == nullptr) {
    const std::string names = join(format_names(), ", ");
    return usage_error(fmt::format("--format {}: formats are {}", escape_for_terminal(arguments.format), names));
  }
  const bool with_costs = arguments.costs || !arguments.recipe.empty() || !arguments.speeds.empty();
  if (arguments.suggest && !format->has_more)
    return usage_error(fmt::format("--suggest: format {} has no place for it; human and json have", format->name));
  if (with_costs && !format->has_more)
    return usage_error(fmt::format("--costs: format {} has no place for them; human and json have", format->name));
  if (arguments.inputs.examples && !format->has_more)
    return usage_error(fmt::format("--example: format {} has no place for it; human and json have", format->name));
  if (arguments.inputs.model.empty() || arguments.inputs.plan.empty())
    return check_settings(arguments, *format, common);
  BaselineUse baseline;
  if (const int status = open_baseline(arguments, common, baseline); status != kExitFine) return status;
  SourceFile* from_stdin = stdin_file(session, arguments.inputs);
  if (!arguments.stdin_filename.empty() && from_stdin == nullptr) {
    return usage_error("--stdin-filename: neither the model nor the plan is `-`");
  }
  if (arguments.fix || arguments.diff) {
    const int descriptor = format->for_people ? STDOUT_FILENO : STDERR_FILENO;
    const int status = fix_plan(arguments.inputs, !arguments.fix, descriptor);
    if (status != kExitFine) return status;
  }
  InputArguments inputs = arguments.inputs;
  inputs.counted = with_costs;
  compile_session(session, inputs, Phase::Manifest, common);
  const StepNumbers numbers = with_costs && !session.usage ? step_numbers(session, arguments) : StepNumbers{};
  judge_session(session, arguments.inputs,
                [&](Code code) { return session.compilation.reached == Phase::Manifest && code != kLintCode; });
  if (session.usage) return kExitUsage;
  if (!arguments.stdin_filename.empty()) from_stdin->name = arguments.stdin_filename;
  take_known(baseline, session);
  std::string said;
  const int status = close_baseline(baseline, exit_status(session.diagnostics), said);
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  const CollectiveMeasure measure = measured(session, with_costs);
  Costs costs = costs_of(session, measure);
  if (numbers.has_memory) costs.memory = &numbers.memory;
  if (numbers.timed) {
    costs.time = &numbers.timed->time;
    costs.topology = &numbers.timed->topology;
  }
  const bool is_plan = session.compilation.reached > Phase::Plan;
  const RuleSuggestion suggestion =
      arguments.suggest && is_plan ? suggest_for_session(session, arguments.inputs) : RuleSuggestion{};
  std::vector<DocumentMember> members;
  if (with_costs && !format->for_people)
    members.push_back({"costs", json_of([&](JsonWriter& json) { write_costs(json, costs); })});
  if (arguments.suggest && is_plan && !format->for_people)
    members.push_back({"suggestion", suggestion_member(suggestion, session.plan)});
  if (format->for_repository) {
    for (SourceFile* file : {&session.model, &session.plan}) file->name = path_in_repository(file->name);
  }
  if (arguments.inputs.examples && !format->for_people)
    members.push_back({"examples", examples_member(session.compilation.judgement.forecast.examples)});
  const ForecastGap gap = session.compilation.judgement.forecast.gap;
  if (!unchecked_by(gap).empty()) members.push_back({"unchecked", unchecked_member({&gap, 1})});
  const std::string unchecked = unchecked_text(gap);
  std::string out = format->render({.diagnostics = session.diagnostics,
                                    .sources = sources_of(session),
                                    .look = look,
                                    .tool = kToolVersion,
                                    .page = embedded_page,
                                    .members = members,
                                    .unchecked = unchecked});
  if (format->for_people) {
    for (const Example& example : session.compilation.judgement.forecast.examples) out += example_text(example);
  }
  // A plan with known errors has no manifest to speak of.
  if (format->for_people && !common.quiet) out += (baseline.is_whole ? summary_of(session) : "") + said;
  if (!format->for_people) print(STDERR_FILENO, said);
  if (format->for_people && with_costs) {
    const CostsLook costs_look{.color = look.color, .width = look.width};
    out += render_costs(costs, costs_look);
    if (numbers.has_memory) out += render_memory(numbers.memory, costs_look);
    if (numbers.timed) out += render_time(numbers.timed->time, costs.mesh, numbers.timed->topology, costs_look);
  }
  if (format->for_people && arguments.suggest && is_plan) out += suggestion_text(suggestion, session.plan);
  const bool printed =
      format->for_people ? print(STDOUT_FILENO, out, {.color = look.color}) : print_raw(STDOUT_FILENO, out);
  return printed ? status : kExitUsage;
}

}  // namespace tpplan
