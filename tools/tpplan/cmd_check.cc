#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "base/text.h"
#include "check_project.h"
#include "commands.h"
#include "cost/check_run.h"
#include "cost/measure_collectives.h"
#include "draw_step.h"
#include "fix_plan.h"
#include "inputs.h"
#include "priced_run.h"
#include "render/formats.h"
#include "report/render_answer.h"
#include "report/render_costs.h"
#include "report/render_run.h"
#include "report/render_step.h"
#include "report/render_trace.h"
#include "repository_path.h"
#include "resolve/match/lint_dialects.h"
#include "suggested_rules.h"
#include "use_baseline.h"

namespace tpplan {
namespace {

// Returns the input that is read from standard input, or nullptr.
SourceFile* stdin_file(Session& session, const InputArguments& inputs) {
  return inputs.model == "-" ? &session.model : inputs.plan == "-" ? &session.plan : nullptr;
}

std::string summary_of(const Session& session) {
  if (exit_status(session.diagnostics) == kExitFine) return summary(session.compilation, session.diagnostics);
  return count_diagnostics(session.diagnostics) + "\n";
}

CollectiveMeasure measured(const Session& session, bool wanted) {
  const Compilation& c = session.compilation;
  return wanted ? measure_collectives(c.plan_result.forecast.calls, c.plan.mesh) : CollectiveMeasure{};
}

Costs costs_of(const Session& session, const CollectiveMeasure& measure) {
  const Compilation& c = session.compilation;
  const ForecastLimit limit = c.plan_result.forecast.limit;
  return {.measure = measure,
          .mesh = c.plan.mesh,
          .batch = c.graph.operations.batch,
          .sequence = c.graph.operations.sequence,
          .has_data_axes = !data_axes_of(c.plan).empty(),
          .has_remat = !c.plan.remat.empty(),
          .units_axis = c.plan.fsdp && !c.plan.fsdp->units.empty() ? c.plan.fsdp->axis : kNoAxis,
          .unlisted = c.plan_result.forecast.unlisted,
          .reason = to_text(limit),
          .help = fix_of(limit),
          .is_compiled = limit == ForecastLimit::Compiled,
          .compiled = c.plan_result.forecast.compiled,
          .uncovered = c.plan_result.forecast.uncovered};
}

void write_cell(JsonWriter& json, const ExampleCell& cell) {
  if (!cell.text.empty()) return write_value(json, nullptr);
  write_array(json, cell.numbers, [&](double number) { write_json(json, number_text(number)); });
}

// Returns the field `examples` of schemas/diagnostics.schema.json.
std::string examples_field(const std::vector<Example>& examples) {
  JsonWriter json;
  write_array(json, examples, [&](const Example& example) {
    begin_object(json);
    write_field(json, "code", kind_of(example.code).id);
    write_field(json, "module", example.path);
    write_field(json, "operation", example.operation);
    write_field(json, "shows", example.in_shapes ? "shapes" : "numbers");
    if (example.in_shapes) {
      write_field(json, "mesh", example.mesh);
      if (example.batch > 0) write_field(json, "batch", example.batch);
      if (example.sequence > 0) write_field(json, "sequence", example.sequence);
    }
    write_key(json, "ranks");
    write_array(json, example.ranks, [&](size_t rank) { write_value(json, rank); });
    write_key(json, "rows");
    write_array(json, example.rows, [&](const ExampleRow& row) {
      begin_object(json);
      write_field(json, "name", row.name);
      write_key(json, "ranks");
      write_array(json, row.ranks, [&](const ExampleCell& cell) { write_cell(json, cell); });
      write_key(json, "whole");
      write_cell(json, row.global);
      end_object(json);
    });
    write_field(json, "conclusion", example.conclusion);
    end_object(json);
  });
  return std::move(json.out);
}

// Runs the `checks` of the settings file. Rejects options that apply to a single plan.
int check_settings(const CheckArguments& arguments, const Format& format, const CommonArguments& common) {
  if (!arguments.inputs.model.empty()) return usage_error("PLAN is required\nRun `tpplan check --help` for usage.");
  if (arguments.project.checks.empty())
    return usage_error(
        "MODEL is required, because no .tpplan.yaml here has `checks`\nRun `tpplan check --help` for usage.");
  const std::pair<std::string_view, bool> single[] = {{"--mesh", !arguments.inputs.mesh.empty()},
                                                      {"--fix", arguments.fix},
                                                      {"--diff", arguments.diff},
                                                      {"--costs", arguments.costs},
                                                      {"--recipe", !arguments.recipe.empty()},
                                                      {"--run", !arguments.run.empty()},
                                                      {"--topology", !arguments.speeds.empty()},
                                                      {"--trace", !arguments.trace.empty()},
                                                      {"--example", arguments.inputs.examples},
                                                      {"--suggest", arguments.suggest},
                                                      {"--stdin-filename", !arguments.stdin_filename.empty()}};
  for (const auto& [name, is_given] : single) {
    if (is_given) return usage_error(fmt::format("{} applies to one plan: pass MODEL and PLAN", name));
  }
  BaselineUse baseline;
  if (const int status = prepare_baseline(arguments, common, baseline); status != kExitFine) return status;
  return check_project(arguments, format, common, baseline);
}

bool wants_costs(const CheckArguments& arguments) {
  return arguments.costs || !arguments.recipe.empty() || !arguments.run.empty() || !arguments.speeds.empty();
}

// Returns why the format cannot have what the options ask for; empty if it can.
std::string format_error(const CheckArguments& arguments, const Format& format) {
  if (format.has_more) return {};
  const std::pair<std::string_view, bool> requested[] = {
      {"--suggest: format {} cannot contain suggestions", arguments.suggest},
      {"--costs: format {} cannot contain costs", wants_costs(arguments)},
      {"--example: format {} cannot contain examples", arguments.inputs.examples}};
  for (const auto& [text, is_given] : requested) {
    if (is_given) return fmt::format(fmt::runtime(text), format.name) + "; use human or json";
  }
  return {};
}

// Results that are printed in addition to the diagnostics.
struct CheckExtras {
  const StepNumbers& numbers;
  const Costs& costs;
  const RuleSuggestion& suggestion;
  bool has_costs = false, has_suggestion = false, has_examples = false;
};

// Returns false after reporting that `--trace` lacks an option, or would replace an input.
bool can_trace(const CheckArguments& arguments, const CommonArguments& common) {
  if (arguments.trace.empty()) return true;
  const InputArguments& inputs = arguments.inputs;
  if (inputs.mode == "decode" || inputs.mode == "infer") {
    usage_error("--trace: draws a training step; remove --mode");
    return false;
  }
  if (arguments.run.empty() || arguments.speeds.empty() || arguments.trace == "-") {
    usage_error(arguments.trace == "-" ? "--trace: standard output has the diagnostics; pass a file name"
                                       : "--trace: the time of a step depends on --run and --topology; add both");
    return false;
  }
  std::vector<std::string> read{inputs.model, inputs.plan, arguments.run};
  if (!arguments.baseline.empty()) read.push_back(arguments.baseline);
  for (const std::string& word : arguments.speeds) read.push_back(speed_path(word));
  return !overwrites_input(arguments.trace, read, common);
}

// Writes the file of `--trace`. Returns kExitUsage after reporting an error.
int write_trace(const Session& session, const CheckArguments& arguments, const Run& run, const StepNumbers& numbers) {
  if (!numbers.priced)
    return reject_write(arguments.trace, "the operations of this step are not all known, or none takes time",
                        "see the coverage of operations: `tpplan check MODEL PLAN --costs`");
  const StepPicture picture = draw_step(session, run, *numbers.priced, numbers.memory, numbers.spans);
  return write_result(arguments.trace, [&](const Sink& sink) { return render_trace(picture, sink); });
}

// Returns the fields of a JSON document: costs, suggestion and examples, unless the format is human-readable, and the
// skipped checks.
std::vector<DocumentField> document_fields(const Session& session, const CheckExtras& extras, const Format& format) {
  std::vector<DocumentField> fields;
  const Forecast& forecast = session.compilation.plan_result.forecast;
  if (!format.is_human) {
    if (extras.has_costs)
      fields.push_back({"costs", json_of([&](JsonWriter& json) { write_costs(json, extras.costs); })});
    if (extras.has_suggestion) fields.push_back({"suggestion", suggestion_field(extras.suggestion, session.plan)});
    if (extras.has_examples) fields.push_back({"examples", examples_field(forecast.examples)});
  }
  if (!unchecked_by(forecast.limit).empty()) fields.push_back({"unchecked", unchecked_field({&forecast.limit, 1})});
  return fields;
}

// Returns the human-readable text after the diagnostics. `summary` describes the baseline and the verdict.
std::string human_text(const Session& session, const CheckExtras& extras, std::string_view summary,
                       const RenderOptions& look) {
  std::string out;
  for (const Example& example : session.compilation.plan_result.forecast.examples) out += example_text(example);
  out += summary;
  if (extras.has_costs) {
    const TerminalStyle style{.color = look.color, .width = look.width};
    out += render_costs(extras.costs, style);
    if (extras.costs.run != nullptr) out += render_run(*extras.costs.run, style);
    if (extras.numbers.has_memory) out += render_memory(extras.numbers.memory, style);
    if (extras.numbers.priced)
      out += render_answer(extras.numbers.priced->answer, extras.numbers.priced->topology, style);
    else if (extras.numbers.is_requested)
      out += "no time of this step: its operations are not all known, or none takes time\n";
    if (extras.numbers.timed)
      out += render_time(extras.numbers.timed->time, extras.costs.mesh, extras.numbers.timed->topology, style);
  }
  if (extras.has_suggestion) out += suggestion_text(extras.suggestion, session.plan);
  return out;
}

}  // namespace

int cmd_check(const CheckArguments& arguments, const CommonArguments& common) {
  Session session;
  const Format* format = find_format(arguments.format);
  if (format == nullptr) {
    const std::string names = join(format_names(), ", ");
    return usage_error(fmt::format("--format {}: expected one of {}", escape_for_terminal(arguments.format), names));
  }
  if (const std::string fault = format_error(arguments, *format); !fault.empty()) return usage_error(fault);
  if (arguments.inputs.model.empty() || arguments.inputs.plan.empty())
    return check_settings(arguments, *format, common);
  const bool infers = arguments.inputs.mode == "decode" || arguments.inputs.mode == "infer";
  if (arguments.context > 0 && !infers)
    return usage_error("--context: only inference has a cache; add --mode decode or --mode infer");
  if (!arguments.cache_dtype.empty() && arguments.context == 0 && arguments.inputs.mode != "decode")
    return usage_error("--cache-dtype: the step has no cache; add --mode decode, or --mode infer --context TOKENS");
  if (!can_trace(arguments, common)) return kExitUsage;
  BaselineUse baseline;
  if (const int status = prepare_baseline(arguments, common, baseline); status != kExitFine) return status;
  SourceFile* from_stdin = stdin_file(session, arguments.inputs);
  if (!arguments.stdin_filename.empty() && from_stdin == nullptr)
    return usage_error("--stdin-filename: neither the model nor the plan is `-`");
  if (arguments.fix || arguments.diff) {
    const int descriptor = format->is_human ? STDOUT_FILENO : STDERR_FILENO;
    const int status = fix_plan(arguments.inputs, !arguments.fix, descriptor);
    if (status != kExitFine) return status;
  }
  const bool with_costs = wants_costs(arguments);
  InputArguments inputs = arguments.inputs;
  inputs.counted = with_costs;
  RunFile run = read_session_run(session, arguments.run, arguments.recipe, inputs);
  session.is_known = baseline_filter(baseline);
  compile_session(session, inputs, Phase::Manifest, common);
  const bool decodes = arguments.inputs.mode == "decode", has_run = !arguments.run.empty() || decodes;
  if (has_run && !session.usage && !has_errors(session.diagnostics))
    complete_run(run, session.compilation.plan, session.compilation.graph.operations, session.diagnostics);
  const int64_t context = decodes && arguments.context == 0 ? run.run.sequence : arguments.context;
  const StepRequest request{.run = run.run,
                            .has_run = has_run,
                            .speeds = arguments.speeds,
                            .decodes = decodes,
                            .context = context,
                            .cache_dtype = arguments.cache_dtype,
                            .draws = !arguments.trace.empty()};
  const StepNumbers numbers = with_costs && !session.usage ? step_numbers(session, request) : StepNumbers{};
  check_session(session, arguments.inputs,
                [&](Code code) { return session.compilation.reached == Phase::Manifest && code != kLintCode; });
  if (session.usage) return kExitUsage;
  if (!arguments.stdin_filename.empty()) from_stdin->name = arguments.stdin_filename;
  take_known(baseline, session);
  std::string baseline_note;
  const int status = finish_baseline(baseline, exit_status(session.diagnostics), baseline_note);
  if (numbers.is_requested && !arguments.trace.empty() &&
      write_trace(session, arguments, run.run, numbers) != kExitFine)
    return kExitUsage;
  const CollectiveMeasure measure = measured(session, with_costs);
  Costs costs = costs_of(session, measure);
  if (numbers.has_memory) costs.memory = &numbers.memory;
  if (!arguments.run.empty() && !has_errors(session.diagnostics)) costs.run = &run.run;
  if (numbers.priced) costs.answer = &numbers.priced->answer;
  if (numbers.timed) {
    costs.time = &numbers.timed->time;
    costs.topology = &numbers.timed->topology;
  }
  const bool suggests = arguments.suggest && session.compilation.reached > Phase::Plan;
  const RuleSuggestion suggestion = suggests ? suggest_for_session(session, arguments.inputs) : RuleSuggestion{};
  const CheckExtras extras{.numbers = numbers,
                           .costs = costs,
                           .suggestion = suggestion,
                           .has_costs = with_costs,
                           .has_suggestion = suggests,
                           .has_examples = arguments.inputs.examples};
  const std::vector<DocumentField> fields = document_fields(session, extras, *format);
  if (format->for_repository) {
    for (SourceFile* file : {&session.model, &session.plan}) file->name = path_in_repository(file->name);
  }
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  const std::string unchecked = unchecked_text(session.compilation.plan_result.forecast.limit);
  const std::string out = format->render({.diagnostics = session.diagnostics,
                                          .sources = sources_of(session),
                                          .look = look,
                                          .tool = kToolVersion,
                                          .page = embedded_page,
                                          .fields = fields,
                                          .unchecked = unchecked});
  if (!format->is_human) {
    print(STDERR_FILENO, baseline_note);
    return print_raw(STDOUT_FILENO, out) ? status : kExitUsage;
  }
  // A plan with known errors has no manifest to summarize.
  const std::string summary =
      common.quiet ? "" : (baseline.taken.errors == 0 ? summary_of(session) : "") + baseline_note;
  const std::string text = out + human_text(session, extras, summary, look);
  return print(STDOUT_FILENO, text, {.color = look.color}) ? status : kExitUsage;
}

}  // namespace tpplan
