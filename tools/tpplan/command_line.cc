// Declares the sub-commands and calls one function for the one that was asked for.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "apply_settings.h"
#include "base/text.h"
#include "commands.h"
#include "emit/emit_formats.h"
#include "import_formats.h"
#include "measure/recipes.h"
#include "number_options.h"
#include "parse_line.h"
#include "plan/dialects.h"
#include "program.h"
#include "render/formats.h"
#include "walk/runtimes.h"
#include "watch_inputs.h"

namespace {

using namespace tpplan;

constexpr const char* kFooter =
    "Exit status: 0 fine (warnings too), 1 the content is wrong, 2 usage or an input that cannot be read,\n"
    "3 internal or a resource limit. `-` is standard input. `tpplan explain TP4001` explains a diagnostic.";

constexpr const char* kManualFiles =
    ".TP\n\\fB.tpplan.yaml\\fR\n"
    "settings: strict, quiet, format, color, max_replicated, deny, allow, required_version, and checks: what `tpplan "
    "check` "
    "without arguments checks; the nearest one in the working directory or "
    "above\n";

// All that a line can say. CLI11 keeps references into it, so it is one object that stays where it is.
struct LineArguments {
  CommonArguments common;
  GateArguments gate;
  CompileArguments compile;
  CheckArguments check;
  SuggestArguments suggest;
  ExplainArguments explain;
  ShowArguments show;
  ReportArguments report;
  ExportArguments export_to;
  ImportArguments import_from;
  DraftArguments draft;
  LintArguments lint;
  DiffArguments diff;
  FmtArguments fmt;
  RulesArguments rules;
  EditorArguments lsp;
  std::string schema_kind;
  std::string color = "auto";
  std::string config;
  bool no_config = false;
};

// The names in a table.
template <typename Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

void add_inputs(CLI::App& command, InputArguments& inputs, GateArguments& gate, bool required = true) {
  command.add_option("MODEL", inputs.model, "model graph (JSON)")->required(required);
  command.add_option("PLAN", inputs.plan, "tp_plan (YAML)")->required(required);
  command.add_option("--mesh", inputs.mesh, "sizes of mesh axes instead of the plan's: tp=8 or fsdp=4,tp=8")
      ->type_name("AXIS=SIZE")
      ->allow_extra_args(false);
  command
      .add_option("--runtime", inputs.runtime,
                  "what runs the plan: transformers, torch or tpplan; by the dialect without it")
      ->check(CLI::IsMember(names_of(runtimes())));
  command.add_option("--mode", inputs.mode, "whether gradients are recorded: train or infer")
      ->check(CLI::IsMember({"train", "infer"}));
  take_whole_number(
      command.add_option(
          "--batch", inputs.batch,
          "batch of the step (of one rank of the data axes), instead of the one that the model file records"),
      1, kMaxStepSize);
  take_whole_number(
      command.add_option("--sequence", inputs.sequence,
                         "length of the step's sequences, instead of the one that the model file records"),
      1, kMaxStepSize);
  add_severity(command, gate);
  add_max_replicated(command, gate);
}

// Options that every sub-command has.
void add_common(CLI::App& command, LineArguments& line) {
  command.add_option("--color", line.color, "auto, always or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->envname("TPPLAN_COLOR");
  command.add_flag("-q,--quiet", line.common.quiet, "no summary")->envname("TPPLAN_QUIET");
  command.add_flag("-v,--verbose", line.common.verbose, "say what happens, and how long it takes");
}

// ---- the commands ----

void declare_compile(CLI::App& command, LineArguments& line) {
  add_inputs(command, line.compile.inputs, line.gate);
  command.add_option("-o,--output", line.compile.output, "manifest file; standard output without it")
      ->type_name("FILE");
  command.add_option("--print", line.compile.print, "print the product of a phase instead")->type_name("PHASE");
}

void add_recipe(CLI::App& command, std::string& recipe, const std::string& text) {
  std::vector<std::string> known;
  for (const Recipe& row : recipes()) known.emplace_back(row.name);
  command.add_option("--recipe", recipe, text)->type_name("NAME")->check(CLI::IsMember(known));
}

void add_speeds(CLI::App& command, std::vector<std::string>& speeds, const std::string& purpose) {
  command
      .add_option("--topology", speeds,
                  purpose +
                      " the time of a step: a file that says how fast links and products are, or what nccl-tests or "
                      "tpplan-exec run --json printed of the axes; may be repeated")
      ->type_name("[AXIS=]FILE")
      ->expected(1)
      ->take_all();
}

// Without a model and a plan: what `checks` of the settings file names.
void declare_check(CLI::App& command, LineArguments& line) {
  add_inputs(command, line.check.inputs, line.gate, false);
  command.add_option("--format", line.check.format, "how the findings are written; human without it")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(format_names()))
      ->envname("TPPLAN_FORMAT");
  command.add_flag(
      "--costs", line.check.costs,
      "what a training step costs, too: its collectives with payload and bytes on the wire, and the memory of a rank");
  add_recipe(command, line.check.recipe, "of --costs: how the model is trained (default: adamw)");
  add_speeds(command, line.check.speeds, "of --costs, for");
  command.add_flag(
      "--example", line.check.inputs.examples,
      "findings of the operations on two ranks, too, side by side with what belongs there: in numbers, or the "
      "shapes that meet, at the smallest sizes that have the finding");
  command.add_flag(
      "--fix", line.check.fix,
      "write what findings propose into the plan first: slips of YAML, near names, rules that repeat others");
  command.add_flag("--diff", line.check.diff, "show what --fix would change, and write nothing")->excludes("--fix");
  command.add_flag("--suggest", line.check.suggest,
                   "show rules for what no rule covers, tried on the plan, as the difference that they make to it");
  command
      .add_option(
          "--baseline", line.check.baseline,
          "findings that this file holds are neither shown nor counted: those that were there when it was written")
      ->type_name("FILE");
  command.add_flag("--write-baseline", line.check.write_baseline, "write what is found now into the baseline");
  command.add_flag("--watch", line.check.watch, "stay, and check again whenever a file that is read changes")
      ->excludes("--fix")
      ->excludes("--write-baseline");
  command.add_option("--stdin-filename", line.check.stdin_filename, "the name that findings give to standard input")
      ->type_name("NAME");
}

void declare_suggest(CLI::App& command, LineArguments& line) {
  add_inputs(command, line.suggest.inputs, line.gate);
  command.add_option("--format", line.suggest.format, "human or json")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
  take_whole_number(command.add_option("--max-ranks", line.suggest.most_ranks,
                                       "the most ranks that a mesh is tried with; 64 without it"),
                    1, 65536);
  add_recipe(command, line.suggest.recipe, "how the model is trained, for the memory of a rank (default: adamw)");
}

void declare_explain(CLI::App& command, LineArguments& line) {
  command.add_option("WORDS", line.explain.words, "MODEL PLAN PATH (or a pattern, or a rule's key), or CODE, or STYLE")
      ->required()
      ->expected(1, 3);
  command.add_option("--mesh", line.explain.mesh, "sizes of mesh axes instead of the plan's")
      ->type_name("AXIS=SIZE")
      ->allow_extra_args(false);
}

void declare_show(CLI::App& command, LineArguments& line) {
  ShowArguments& arguments = line.show;
  command.add_option("MANIFEST", arguments.manifest, "manifest file")->required();
  command
      .add_option_function<int64_t>(
          "--rank", [&arguments](int64_t rank) { arguments.rank = rank; }, "the slices of this rank")
      ->type_name("RANK");
  command.add_option("--parameter", arguments.parameter, "this parameter only")->type_name("PATH");
  command.add_option("--format", arguments.format, "human or json (one object a line)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
  CLI::Option* chart_option = command.add_flag("--chart", arguments.chart, "bars of the memory of each rank");
  command.add_flag("--ascii", arguments.ascii, "chart and grid in ASCII, whatever the locale");
  add_recipe(command, arguments.recipe, "how the model is trained, for the memory of a step (default: adamw)");
  add_speeds(command, arguments.speeds, "for");
  for (const char* other : {"--rank", "--parameter", "--format"}) {
    chart_option->excludes(command.get_option(other));
    command.get_option("--topology")->excludes(command.get_option(other));
  }
  command.get_option("--topology")->excludes(chart_option);
}

void declare_report(CLI::App& command, LineArguments& line) {
  command.add_option("MANIFEST", line.report.manifest, "manifest file")->required();
  command.add_option("--against", line.report.against, "older manifest, from which the differences are shown")
      ->type_name("MANIFEST");
  command.add_option("-o,--output", line.report.output, "HTML file; standard output without it")->type_name("FILE");
  add_recipe(command, line.report.recipe, "how the model is trained, for the memory of ranks (default: adamw)");
  add_speeds(command, line.report.speeds, "for");
}

void declare_export(CLI::App& command, LineArguments& line) {
  std::string formats;
  for (const EmitFormat& format : emit_formats())
    formats += "\n" + std::string(format.name) + ": " + std::string(format.description);
  command.add_option("MANIFEST", line.export_to.manifest, "manifest file")->required();
  command.add_option("--to", line.export_to.format, "format to write:" + formats)
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::IsMember(names_of(emit_formats())));
  command.add_option("-o,--output", line.export_to.output, "file to write; standard output without it")
      ->type_name("FILE");
  command.add_flag("--lossy", line.export_to.lossy, "write what the format can say, and warn of the rest");
  command.add_flag("--python", line.export_to.python, "torch: a Python module instead of JSON");
}

void declare_import(CLI::App& command, LineArguments& line) {
  command
      .add_option("FILE", line.import_from.file,
                  "specs file of tpplan export, safetensors file or its index (.json), or config.json")
      ->required();
  command
      .add_option("--from", line.import_from.format,
                  "format of the file: jax, shardy, torch (a plan), safetensors, config (a model)")
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::IsMember(names_of(import_formats())));
  command
      .add_option("--model-config", line.import_from.config, "config.json that says the heads of a safetensors model")
      ->type_name("FILE");
  command
      .add_option("-o,--output", line.import_from.output,
                  "plan file, with its schema beside it for editors, or model file; standard output without it")
      ->type_name("FILE");
  command.add_flag("--no-schema", line.import_from.no_schema, "no schema beside a plan, and no line that names it");
}

// Dialects whose plans name modules and styles, which is what is drafted.
std::vector<std::string> drafted_dialects() {
  std::vector<std::string> names;
  for (const DialectRow* row : dialect_table()) {
    if (row->keys == KeySyntax::Glob && !row->keep_whole.empty()) names.emplace_back(row->name);
  }
  return names;
}

void declare_init(CLI::App& command, LineArguments& line) {
  command
      .add_option("MODEL", line.draft.model,
                  "model graph, config.json, safetensors file or the index of its shards (.json)")
      ->required();
  command.add_option("--mesh", line.draft.mesh, "mesh axes: tp=8 or fsdp=4,tp=8; without it tp=8, 4 or 2")
      ->type_name("AXIS=SIZE")
      ->allow_extra_args(false);
  command.add_option("--dialect", line.draft.dialect, "of the plan; glob without it")
      ->type_name("NAME")
      ->check(CLI::IsMember(drafted_dialects()));
  command
      .add_option("--model-config", line.draft.config,
                  "config.json that says the heads of a safetensors model; the one beside it without it")
      ->type_name("FILE");
  command
      .add_option("-o,--output", line.draft.output,
                  "plan file, with its schema beside it for editors; standard output without it")
      ->type_name("FILE");
  command.add_flag("--force", line.draft.force, "replace a plan that is there");
  command.add_flag("--no-schema", line.draft.no_schema, "no schema beside the plan, and no line that names it");
}

void declare_schema(CLI::App& command, LineArguments& line) {
  command
      .add_option("KIND", line.schema_kind,
                  "model, plan, manifest, diagnostics, diff, suggestion, settings, baseline or topology")
      ->required();
}

void declare_lint(CLI::App& command, LineArguments& line) {
  command.add_option("MODEL", line.lint.inputs.model, "model graph (JSON)")->required();
  command.add_option("PLAN", line.lint.inputs.plan, "tp_plan (YAML)")->required();
  std::vector<std::string> dialects;
  for (const DialectRow* row : dialect_table()) dialects.emplace_back(row->name);
  command
      .add_option("--dialect", line.lint.dialects,
                  "a dialect that is asked for; may be repeated; without it those whose keys are written as the plan's")
      ->type_name("NAME")
      ->expected(1)
      ->take_all()
      ->check(CLI::IsMember(dialects));
  add_severity(command, line.gate);
}

void declare_diff(CLI::App& command, LineArguments& line) {
  command
      .add_option("FILES", line.diff.words,
                  "OLD NEW, two manifests; or MODEL OLD NEW, two plans of a model; with --base MANIFEST, or MODEL PLAN")
      ->required()
      ->expected(1, 3);
  command
      .add_option_function<std::string>(
          "--base",
          [&arguments = line.diff](const std::string& ref) {
            arguments.base = ref;
            arguments.is_against_base = true;
          },
          "the old side is what stands at this commit of git: a branch, a tag, a hash")
      ->type_name("COMMIT");
  command
      .add_option("--format", line.diff.format,
                  "human, json, or markdown for a comment on a pull request and the summary of a job")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(diff_format_names()));
  add_speeds(command, line.diff.speeds, "for");
  command.add_flag("--exit-zero", line.diff.exit_zero, "exit status 0 even when they differ");
}

void declare_lsp(CLI::App& command, LineArguments& line) {
  command.add_option("--model", line.lsp.model, "the model (JSON) of plans that no `checks` of a .tpplan.yaml name")
      ->type_name("FILE");
  command.add_flag("--stdio")->description("what it speaks over anyway: for editors that always say so");
}

void declare_rules(CLI::App& command, LineArguments& line) {
  command.add_option("--format", line.rules.format, "human or json")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
}

void declare_fmt(CLI::App& command, LineArguments& line) {
  command.add_option("PLAN", line.fmt.plans, "plan files; each is formatted in place, `-` to standard output")
      ->required();
  command.add_flag("--check", line.fmt.check,
                   "write nothing, name the plans that would change; exit status 1 when there are any");
  command.add_flag("--diff", line.fmt.diff, "write nothing, show what would change; exit status 1 when anything would");
  command.add_option("-o,--output", line.fmt.output, "file for the formatted plan instead")->type_name("FILE");
}

// What of a command's arguments flags, variables and the settings file decide together.
struct Settled {
  InputArguments* inputs = nullptr;  // --deny, --allow, --strict, --max-replicated
  std::string* format = nullptr;     // of findings
  Project* project = nullptr;        // what is checked without a model and a plan
  std::string* baseline = nullptr;   // of known findings
};

struct CommandRow {
  std::string_view name, description;
  void (*declare)(CLI::App& command, LineArguments& line);
  int (*run)(const LineArguments& line);
  Settled (*settled)(LineArguments& line) = [](LineArguments&) { return Settled{}; };
  bool reads_settings = true;  // of the working directory, before it runs
};

// In the order in which help, completions and the manual page list them.
constexpr CommandRow kCommands[] = {
    {"compile", "write the sharding manifest of a model under a plan", declare_compile,
     [](const LineArguments& line) { return cmd_compile(line.compile, line.common); },
     [](LineArguments& line) { return Settled{&line.compile.inputs}; }},
    {"check", "say what is wrong with a plan, or with all that .tpplan.yaml names", declare_check,
     [](const LineArguments& line) { return cmd_check(line.check, line.common); },
     [](LineArguments& line) {
       return Settled{&line.check.inputs, &line.check.format, &line.check.project, &line.check.baseline};
     }},
    {"init", "write a first plan for a model, with comments, and judge it", declare_init,
     [](const LineArguments& line) { return cmd_init(line.draft, line.common); }},
    {"suggest", "the sizes of the mesh with which a plan is right, and the edits that mend it", declare_suggest,
     [](const LineArguments& line) { return cmd_suggest(line.suggest, line.common); },
     [](LineArguments& line) { return Settled{&line.suggest.inputs}; }},
    {"explain", "why a parameter or module ends up as it does, or what a diagnostic or a style means", declare_explain,
     [](const LineArguments& line) { return cmd_explain(line.explain, line.common); }},
    {"show", "what a manifest says: overview, one parameter, or one rank's slices", declare_show,
     [](const LineArguments& line) { return cmd_show(line.show, line.common); }},
    {"report", "write a page about a manifest: memory, rules, shards, bytes moved", declare_report,
     [](const LineArguments& line) { return cmd_report(line.report, line.common); }},
    {"export", "write a manifest's shardings as another program reads them", declare_export,
     [](const LineArguments& line) { return cmd_export(line.export_to, line.common); }},
    {"import", "make a plan of another program's shardings, or a model of its weights or config", declare_import,
     [](const LineArguments& line) { return cmd_import(line.import_from, line.common); }},
    {"schema", "print the JSON Schema of a file format", declare_schema,
     [](const LineArguments& line) { return cmd_schema(line.schema_kind); }},
    {"lint", "say where other dialects would read a plan's keys differently", declare_lint,
     [](const LineArguments& line) { return cmd_lint(line.lint, line.common); },
     [](LineArguments& line) { return Settled{&line.lint.inputs}; }},
    {"rules", "list the codes of all findings", declare_rules,
     [](const LineArguments& line) { return cmd_rules(line.rules); }},
    {"diff", "say what differs between two manifests, or two plans; exit status 1 when anything does", declare_diff,
     [](const LineArguments& line) { return cmd_diff(line.diff, line.common); }},
    {"lsp", "serve an editor over standard input and output: findings, hover, completion, fixes of plans", declare_lsp,
     [](const LineArguments& line) {
       return cmd_lsp({line.lsp.model, line.config, line.no_config});
     },
     [](LineArguments&) { return Settled{}; }, false},
    {"fmt", "write plans in their canonical layout, comments kept", declare_fmt,
     [](const LineArguments& line) { return cmd_fmt(line.fmt, line.common); }},
};

void declare_program(CLI::App& app, LineArguments& line) {
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();  // --config may stand behind the command
  app.set_version_flag("--version", std::string(kToolVersion));
  for (const CommandRow& row : kCommands) {
    CLI::App* command = app.add_subcommand(std::string(row.name), std::string(row.description));
    row.declare(*command, line);
    add_common(*command, line);
  }
  app.add_option("--config", line.config, "settings file instead of the nearest .tpplan.yaml")
      ->type_name("FILE")
      ->envname("TPPLAN_CONFIG");
  app.add_flag("--no-config", line.no_config, "read no settings file");
}

// Flags, variables and the settings file become the arguments of the command that was asked for. False after saying why
// they cannot.
[[nodiscard]] bool settle(const CLI::App& command, const CommandRow& row, const ParsedLine& parsed,
                          LineArguments& line) {
  Settings settings;
  if (!line.no_config && !load_settings(line.config, line.common.settings, settings)) return false;
  const Settled settled = row.settled(line);
  if (settled.project != nullptr) *settled.project = settings.project;
  std::string no_format;
  apply_settings(command, settings, line.common.quiet, line.color,
                 settled.format != nullptr ? *settled.format : no_format,
                 settled.baseline != nullptr ? *settled.baseline : no_format);
  line.common.color = line.color == "always"  ? ColorChoice::Always
                      : line.color == "never" ? ColorChoice::Never
                                              : ColorChoice::Auto;
  return settled.inputs == nullptr || apply_gate(command, parsed, line.gate, settings, *settled.inputs);
}

int run(int argc, char** argv) {
  LineArguments line;
  CLI::App app{"Says whether a tensor-parallel plan is right, and writes the sharding manifest.", "tpplan"};
  declare_program(app, line);
  ShellCommands for_shell;
  add_shell_commands(app, for_shell);
  const ParsedLine parsed = parse_line(app, argc, argv);
  if (parsed.status) return *parsed.status;
  if (is_asked(for_shell))
    return print_for_shell(app, for_shell, std::string(kToolVersion), kManualFiles) ? kExitFine : kExitUsage;
  const CLI::App& command = *app.get_subcommands().front();
  const CommandRow& row = *std::ranges::find(kCommands, command.get_name(), &CommandRow::name);
  if (line.check.watch) {
    if (line.check.inputs.model == "-" || line.check.inputs.plan == "-")
      return usage_error("--watch: standard input is read once: name files");
    int status = kExitFine;
    if (!run_at_each_change([&] { return watched_inputs(line.check, line.config, line.no_config); }, status))
      return status;
  }
  return !row.reads_settings || settle(command, row, parsed, line) ? row.run(line) : kExitUsage;
}

}  // namespace

int tpplan::program_main(int argc, char** argv) {
  end_at_first_shortage("tpplan");
  return run_program("tpplan", run, argc, argv);
}
