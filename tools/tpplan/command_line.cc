// Declares the sub-commands and calls one function for the one that was asked for.
#include <CLI/CLI.hpp>

#include "apply_settings.h"
#include "base/text.h"
#include "commands.h"
#include "emit/emit_formats.h"
#include "import_formats.h"
#include "measure/optimizers.h"
#include "number_options.h"
#include "parse_line.h"
#include "program.h"
#include "render/formats.h"

namespace {

using namespace tpplan;

constexpr const char* kFooter =
    "Exit status: 0 fine (warnings too), 1 the content is wrong, 2 usage or an input that cannot be read,\n"
    "3 internal or a resource limit. `-` is standard input. `tpplan explain TP4001` explains a diagnostic.";

constexpr const char* kManualFiles =
    ".TP\n\\fB.tpplan.yaml\\fR\n"
    "settings: strict, quiet, format, color, max_replicated, deny, allow; the nearest one in the working directory or "
    "above\n";

void add_inputs(CLI::App& command, InputArguments& inputs, GateArguments& gate) {
  command.add_option("MODEL", inputs.model, "model graph (JSON)")->required();
  command.add_option("PLAN", inputs.plan, "tp_plan (YAML)")->required();
  command.add_option("--mesh", inputs.mesh, "sizes of mesh axes instead of the plan's: tp=8 or fsdp=4,tp=8")
      ->type_name("AXIS=SIZE")
      ->allow_extra_args(false);
  command
      .add_option("--runtime", inputs.runtime,
                  "what runs the plan: transformers, torch or tpplan; by the dialect without it")
      ->check(CLI::IsMember({"transformers", "torch", "tpplan"}));
  command.add_option("--mode", inputs.mode, "whether gradients are recorded: train or infer")
      ->check(CLI::IsMember({"train", "infer"}));
  take_whole_number(
      command.add_option("--batch", inputs.batch, "batch of the step, instead of the one that the model file records"),
      1, kMaxStepSize);
  take_whole_number(
      command.add_option("--sequence", inputs.sequence,
                         "length of the step's sequences, instead of the one that the model file records"),
      1, kMaxStepSize);
  add_severity(command, gate);
  add_max_replicated(command, gate);
}

// The names in a table of formats.
template <typename Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

void add_export(CLI::App& command, ExportArguments& arguments) {
  std::string formats;
  for (const EmitFormat& format : emit_formats())
    formats += "\n" + std::string(format.name) + ": " + std::string(format.description);
  command.add_option("MANIFEST", arguments.manifest, "manifest file")->required();
  command.add_option("--to", arguments.format, "format to write:" + formats)
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::IsMember(names_of(emit_formats())));
  command.add_option("-o,--output", arguments.output, "file to write; standard output without it")->type_name("FILE");
  command.add_flag("--lossy", arguments.lossy, "write what the format can say, and warn of the rest");
  command.add_flag("--python", arguments.python, "torch: a Python module instead of JSON");
}

void add_import(CLI::App& command, ImportArguments& arguments) {
  command
      .add_option("FILE", arguments.file,
                  "specs file of tpplan export, safetensors file or its index (.json), or config.json")
      ->required();
  command
      .add_option("--from", arguments.format,
                  "format of the file: jax, shardy, torch (a plan), safetensors, config (a model)")
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::IsMember(names_of(import_formats())));
  command.add_option("--model-config", arguments.config, "config.json that says the heads of a safetensors model")
      ->type_name("FILE");
  command.add_option("-o,--output", arguments.output, "plan or model file; standard output without it")
      ->type_name("FILE");
}

void add_diff(CLI::App& command, DiffArguments& arguments) {
  command.add_option("OLD", arguments.before, "manifest file")->required();
  command.add_option("NEW", arguments.after, "manifest file that is held against it")->required();
  command.add_option("--format", arguments.format, "human or json")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
  command.add_flag("--exit-zero", arguments.exit_zero, "exit status 0 even when they differ");
}

void add_fmt(CLI::App& command, FmtArguments& arguments) {
  command.add_option("PLAN", arguments.plans, "plan files; each is formatted in place, `-` to standard output")
      ->required();
  command.add_flag("--check", arguments.check,
                   "write nothing, name the plans that would change; exit status 1 when there are any");
  command.add_flag("--diff", arguments.diff,
                   "write nothing, show what would change; exit status 1 when anything would");
  command.add_option("-o,--output", arguments.output, "file for the formatted plan instead")->type_name("FILE");
}

void add_optimizer(CLI::App& command, std::string& optimizer) {
  command
      .add_option("--optimizer", optimizer, "whose state is counted: none, sgd or adamw, which is assumed without it")
      ->type_name("NAME")
      ->check(CLI::IsMember(names_of(optimizers())));
}

void add_report(CLI::App& command, ReportArguments& arguments) {
  command.add_option("MANIFEST", arguments.manifest, "manifest file")->required();
  command.add_option("--against", arguments.against, "older manifest, from which the differences are shown")
      ->type_name("MANIFEST");
  command.add_option("-o,--output", arguments.output, "HTML file; standard output without it")->type_name("FILE");
  add_optimizer(command, arguments.optimizer);
}

// Options that every sub-command has.
void add_common(CLI::App& command, CommonArguments& common, std::string& color) {
  command.add_option("--color", color, "auto, always or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->envname("TPPLAN_COLOR");
  command.add_flag("-q,--quiet", common.quiet, "no summary")->envname("TPPLAN_QUIET");
  command.add_flag("-v,--verbose", common.verbose, "say what happens, and how long it takes");
}

int run(int argc, char** argv) {
  CLI::App app{"Says whether a tensor-parallel plan is right, and writes the sharding manifest.", "tpplan"};
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();  // --config may stand behind the command
  app.failure_message([](const CLI::App* command, const CLI::Error& error) {
    const std::string name = command->get_parent() == nullptr ? "tpplan" : "tpplan " + command->get_name();
    return "tpplan: error: " + escape_for_terminal(error.what()) + "\nRun `" + name + " --help` for what there is.\n";
  });
  app.set_version_flag("--version", std::string(kToolVersion));
  CommonArguments common;
  GateArguments gate;
  CompileArguments compile_arguments;
  CheckArguments check_arguments;
  ExplainArguments explain_arguments;
  ShowArguments show_arguments;
  ReportArguments report_arguments;
  ExportArguments export_arguments;
  ImportArguments import_arguments;
  std::string color = "auto", kind, config;
  bool no_config = false;
  int64_t rank = 0;

  CLI::App* compile = app.add_subcommand("compile", "write the sharding manifest of a model under a plan");
  add_inputs(*compile, compile_arguments.inputs, gate);
  compile->add_option("-o,--output", compile_arguments.output, "manifest file; standard output without it")
      ->type_name("FILE");
  compile->add_option("--print", compile_arguments.print, "print the product of a phase instead")->type_name("PHASE");

  CLI::App* check = app.add_subcommand("check", "say what is wrong with a plan, and write nothing");
  add_inputs(*check, check_arguments.inputs, gate);
  check->add_option("--format", check_arguments.format, "how the findings are written; human without it")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(format_names()))
      ->envname("TPPLAN_FORMAT");
  check->add_flag("--costs", check_arguments.costs,
                  "the collectives of a training step, too: payload and bytes on the wire, by layer and in total");
  check->add_option("--stdin-filename", check_arguments.stdin_filename, "the name that findings give to standard input")
      ->type_name("NAME");

  CLI::App* explain =
      app.add_subcommand("explain", "why a parameter or module ends up as it does, or what a diagnostic means");
  explain->add_option("WORDS", explain_arguments.words, "MODEL PLAN PATH, or CODE")->required()->expected(1, 3);
  explain->add_option("--mesh", explain_arguments.mesh, "sizes of mesh axes instead of the plan's")
      ->type_name("AXIS=SIZE")
      ->allow_extra_args(false);

  CLI::App* show = app.add_subcommand("show", "what a manifest says: overview, one parameter, or one rank's slices");
  show->add_option("MANIFEST", show_arguments.manifest, "manifest file")->required();
  CLI::Option* rank_option = show->add_option("--rank", rank, "the slices of this rank")->type_name("RANK");
  show->add_option("--parameter", show_arguments.parameter, "this parameter only")->type_name("PATH");
  show->add_option("--format", show_arguments.format, "human or json (one object a line)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
  CLI::Option* chart_option = show->add_flag("--chart", show_arguments.chart, "bars of the memory of each rank");
  show->add_flag("--ascii", show_arguments.ascii, "the chart in ASCII, whatever the locale")->needs(chart_option);
  add_optimizer(*show, show_arguments.optimizer);
  show->get_option("--optimizer")->needs(chart_option);
  for (const char* other : {"--rank", "--parameter", "--format"}) chart_option->excludes(show->get_option(other));

  CLI::App* report = app.add_subcommand("report", "write a page about a manifest: memory, rules, shards, bytes moved");
  add_report(*report, report_arguments);

  CLI::App* export_command = app.add_subcommand("export", "write a manifest's shardings as another program reads them");
  add_export(*export_command, export_arguments);
  CLI::App* import_command =
      app.add_subcommand("import", "make a plan of another program's shardings, or a model of its weights or config");
  add_import(*import_command, import_arguments);

  CLI::App* schema = app.add_subcommand("schema", "print the JSON Schema of a file format");
  schema->add_option("KIND", kind, "model, plan, manifest, diagnostics or diff")->required();

  for (CLI::App* command : {compile, check, explain, show, report, export_command, import_command, schema})
    add_common(*command, common, color);
  InputArguments lint_arguments;
  CLI::App* lint = app.add_subcommand("lint", "say where other dialects would read a plan's keys differently");
  lint->add_option("MODEL", lint_arguments.model, "model graph (JSON)")->required();
  lint->add_option("PLAN", lint_arguments.plan, "tp_plan (YAML)")->required();
  add_severity(*lint, gate);
  add_common(*lint, common, color);
  DiffArguments diff_arguments;
  CLI::App* diff =
      app.add_subcommand("diff", "say what differs between two manifests; exit status 1 when anything does");
  add_diff(*diff, diff_arguments);
  add_common(*diff, common, color);
  FmtArguments fmt_arguments;
  CLI::App* fmt = app.add_subcommand("fmt", "write plans in their canonical layout, comments kept");
  add_fmt(*fmt, fmt_arguments);
  add_common(*fmt, common, color);
  ShellCommands for_shell;
  add_shell_commands(app, for_shell);
  app.add_option("--config", config, "settings file instead of the nearest .tpplan.yaml")
      ->type_name("FILE")
      ->envname("TPPLAN_CONFIG");
  app.add_flag("--no-config", no_config, "read no settings file");
  const ParsedLine line = parse_line(app, argc, argv);
  if (line.status) return *line.status;
  if (is_asked(for_shell))
    return print_for_shell(app, for_shell, std::string(kToolVersion), kManualFiles) ? kExitFine : kExitUsage;
  Settings settings;
  if (!no_config && !load_settings(config, common.settings, settings)) return kExitUsage;
  CLI::App& used = *app.get_subcommands().front();
  std::string format;
  apply_settings(used, settings, common.quiet, color, *check ? check_arguments.format : format);
  if (*compile && !apply_gate(used, line, gate, settings, compile_arguments.inputs)) return kExitUsage;
  if (*check && !apply_gate(used, line, gate, settings, check_arguments.inputs)) return kExitUsage;
  if (*lint && !apply_gate(used, line, gate, settings, lint_arguments)) return kExitUsage;
  common.color = color == "always" ? ColorChoice::Always : color == "never" ? ColorChoice::Never : ColorChoice::Auto;
  if (rank_option->count() > 0) show_arguments.rank = rank;
  if (*compile) return cmd_compile(compile_arguments, common);
  if (*diff) return cmd_diff(diff_arguments, common);
  if (*fmt) return cmd_fmt(fmt_arguments, common);
  if (*lint) return cmd_lint(lint_arguments, common);
  if (*check) return cmd_check(check_arguments, common);
  if (*explain) return cmd_explain(explain_arguments, common);
  if (*show) return cmd_show(show_arguments, common);
  if (*report) return cmd_report(report_arguments, common);
  if (*export_command) return cmd_export(export_arguments, common);
  if (*import_command) return cmd_import(import_arguments, common);
  return cmd_schema(kind);
}

}  // namespace

int tpplan::program_main(int argc, char** argv) { return run_program("tpplan", run, argc, argv); }
