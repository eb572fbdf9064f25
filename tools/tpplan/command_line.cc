// Declares the subcommands and calls the function of the selected one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "apply_settings.h"
#include "base/text.h"
#include "commands.h"
#include "cost/recipes.h"
#include "emit/emit_formats.h"
#include "import_formats.h"
#include "number_options.h"
#include "parse_line.h"
#include "plan/dialects.h"
#include "program.h"
#include "render/formats.h"
#include "trace.h"
#include "walk/runtimes.h"
#include "watch_inputs.h"

namespace {

using namespace tpplan;

constexpr const char* kFooter =
    "Exit status: 0 success (with or without warnings), 1 errors in the content, 2 usage or unreadable input,\n"
    "3 internal error or resource limit. `-` is standard input. `tpplan explain TP4001` explains a diagnostic.";

constexpr const char* kManualFiles =
    ".TP\n\\fB.tpplan.yaml\\fR\n"
    "settings: strict, quiet, format, color, max_replicated, deny, allow, required_version, and checks: the plans of "
    "`tpplan check` without arguments; the nearest file in the working directory or above\n";

// All arguments of a command line. CLI11 keeps references into it, so it must not move.
struct LineArguments {
  CommonArguments common;
  GateArguments gate;
  CompileArguments compile;
  CheckArguments check;
  SuggestArguments suggest;
  SearchArguments search;
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
  PropagateArguments propagate;
  EditorArguments lsp;
  std::string schema_kind;
  std::string color = "auto";
  std::string config;
  bool no_config = false;
};

// Returns the names of a table's rows.
template <typename Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

void add_mode(CLI::App& command, InputArguments& inputs, bool decodes) {
  if (decodes)
    command
        .add_option(
            "--mode", inputs.mode,
            "kind of step: train, infer without gradients, or decode one token of each sequence (default: train)")
        ->check(CLI::IsMember({"train", "infer", "decode"}));
  else
    command.add_option("--mode", inputs.mode, "kind of step: train, or infer without gradients (default: train)")
        ->check(CLI::IsMember({"train", "infer"}));
}

void add_sizes(CLI::App& command, int64_t& batch, int64_t& sequence) {
  add_integer_range(
      command.add_option("--batch", batch,
                         "batch size of the step on one rank of the data axes (default: the model file's)"),
      1, kMaxStepSize);
  add_integer_range(
      command.add_option("--sequence", sequence, "sequence length of the step (default: the model file's)"), 1,
      kMaxStepSize);
}

void add_inputs(CLI::App& command, InputArguments& inputs, GateArguments& gate, bool is_check = false) {
  command.add_option("MODEL", inputs.model, "model graph (JSON)")->required(!is_check);
  command.add_option("PLAN", inputs.plan, "sharding plan (YAML)")->required(!is_check);
  command.add_option("--mesh", inputs.mesh, "sizes of mesh axes, such as tp=8 or fsdp=4,tp=8 (default: the plan's)")
      ->type_name("AXIS=SIZE")
      ->allow_extra_args(false);
  command
      .add_option("--runtime", inputs.runtime,
                  "runtime that applies the plan: transformers, torch or tpplan (default: the dialect's)")
      ->check(CLI::IsMember(names_of(runtimes())));
  add_mode(command, inputs, is_check);
  add_sizes(command, inputs.batch, inputs.sequence);
  add_severity(command, gate);
  add_max_replicated(command, gate);
}

// Adds the options that all subcommands share.
void add_common(CLI::App& command, LineArguments& line) {
  command.add_option("--color", line.color, "coloured output: auto, always or never (default: auto)")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->envname("TPPLAN_COLOR");
  command.add_flag("-q,--quiet", line.common.quiet, "print no summary")->envname("TPPLAN_QUIET");
  command.add_flag("-v,--verbose", line.common.verbose, "print each phase with its time");
}

// ---- the commands ----

void declare_compile(CLI::App& command, LineArguments& line) {
  add_inputs(command, line.compile.inputs, line.gate);
  command.add_option("-o,--output", line.compile.output, "manifest file (default: standard output)")->type_name("FILE");
  command
      .add_option("--print", line.compile.print,
                  "print the result of this phase and stop: model, graph, plan, matches, shardings, boundaries, "
                  "operations or manifest")
      ->type_name("PHASE");
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
                      " the time of a step, from a file with the speeds of links and matmuls, or from the output of "
                      "nccl-tests or tpplan-exec run --json; repeatable")
      ->type_name("[AXIS=]FILE")
      ->expected(1)
      ->take_all();
}

void add_run(CLI::App& command, std::string& run, const std::string& purpose,
             const std::string& overriding = "--batch, --sequence and --recipe override it") {
  command
      .add_option("--run", run,
                  purpose + "how the step runs (tpplan schema run): batch, sequence, checkpointing, loss, optimizer; " +
                      overriding)
      ->type_name("FILE");
}

// Without MODEL and PLAN the command checks the `checks` of the settings file.
void declare_check(CLI::App& command, LineArguments& line) {
  add_inputs(command, line.check.inputs, line.gate, true);
  command.add_option("--format", line.check.format, "format of the diagnostics (default: human)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(format_names()))
      ->envname("TPPLAN_FORMAT");
  command.add_flag(
      "--costs", line.check.costs,
      "also print the costs of a training step: collectives with payload and bytes on the wire, memory per rank");
  add_recipe(command, line.check.recipe, "with --costs: optimizer and precision of training (default: adamw)");
  add_run(command, line.check.run, "with --costs: ");
  add_integer_range(
      command.add_option(
          "--context", line.check.context,
          "of inference: tokens in the cache of each sequence (default: with --mode decode the model file's sequence)"),
      1, kMaxStepSize);
  command
      .add_option("--cache-dtype", line.check.cache_dtype,
                  "of inference: dtype of cached keys and values (default: the model's)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8"}));
  add_speeds(command, line.check.speeds, "with --costs: estimate");
  command
      .add_option("--trace", line.check.trace,
                  "with --run and --topology: write the step as a timeline with its memory, in Chrome's trace format "
                  "(JSON); ui.perfetto.dev opens it")
      ->type_name("FILE");
  command.add_flag("--example", line.check.inputs.examples,
                   "also show an example of each error of an operation: the wrong and the right result on two ranks, "
                   "at the smallest sizes");
  command.add_flag("--fix", line.check.fix, "apply the edits that diagnostics propose to the plan, then check it");
  command.add_flag("--diff", line.check.diff, "show the changes of --fix without writing them")->excludes("--fix");
  command.add_flag("--suggest", line.check.suggest,
                   "suggest rules for layers without one, as a diff of the plan; each is checked first");
  command.add_option("--baseline", line.check.baseline, "file of known diagnostics, which are not reported again")
      ->type_name("FILE");
  command.add_flag("--write-baseline", line.check.write_baseline, "write the current diagnostics into the baseline");
  command.add_flag("--watch", line.check.watch, "keep running, and check again when an input file changes")
      ->excludes("--fix")
      ->excludes("--write-baseline");
  command.add_option("--stdin-filename", line.check.stdin_filename, "name to print for standard input in diagnostics")
      ->type_name("NAME");
}

void declare_suggest(CLI::App& command, LineArguments& line) {
  add_inputs(command, line.suggest.inputs, line.gate);
  command.add_option("--format", line.suggest.format, "output format: human or json (default: human)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
  add_integer_range(
      command.add_option("--max-ranks", line.suggest.most_ranks, "maximum number of ranks of a mesh (default: 64)"), 1,
      65536);
  add_recipe(command, line.suggest.recipe,
             "optimizer and precision of training, for the memory per rank (default: adamw)");
  add_run(command, line.suggest.run, "");
  add_speeds(command, line.suggest.speeds, "compare the memory with that of a GPU, and estimate");
}

void declare_search(CLI::App& command, LineArguments& line) {
  SearchArguments& search = line.search;
  command.add_option("MODEL", search.model, "model graph, config.json or safetensors file, with operations")
      ->required();
  add_integer_range(command.add_option("--ranks", search.ranks, "number of ranks")->required(), 1, 1 << 20);
  add_integer_range(command.add_option("--batch", search.batch, "batch size of all ranks in one step")->required(), 1,
                    kMaxStepSize);
  add_integer_range(
      command.add_option("--sequence", search.sequence, "sequence length of the step (default: the model file's)"), 1,
      kMaxStepSize);
  add_speeds(command, search.speeds, "estimate");
  command.add_option("--run", search.run, "how the step runs (tpplan schema run), without its batch and sequence")
      ->type_name("FILE");
  add_recipe(command, search.recipe, "optimizer and precision of training (default: that of --run, or adamw)");
  command
      .add_option(
          "--mesh", search.mesh,
          "axes of dp, fsdp and tp, such as fsdp,tp=2..8; an axis without a size has any, the others have size 1 "
          "(default: dp,fsdp,tp)")
      ->type_name("AXES");
  command.add_option("--memory", search.memory, "memory of a rank, such as 80GiB (default: 92 % of the topology's)")
      ->type_name("SIZE");
  command.add_option("--minimize", search.minimize, "time, memory or tokens: seconds of a token (default: time)")
      ->check(CLI::IsMember({"time", "memory", "tokens"}));
  command
      .add_option("--simple", search.simple,
                  "what a plan with fewer kinds of layers may cost more than the best, 0 for the best (default: 1%)")
      ->type_name("SHARE");
  command.add_option("--mode", search.mode, "kind of step: train, or infer without gradients (default: train)")
      ->check(CLI::IsMember({"train", "infer"}));
  command.add_option("--keep", search.keep, "a plan with as many ranks, to compare the best one with")
      ->type_name("PLAN");
  add_integer_range(command.add_option("--top", search.top, "most meshes to list (default: 5)"), 1, 1000);
  command.add_option("-o,--output", search.output, "plan file (default: standard output)")->type_name("FILE");
  command.add_option("--report", search.report, "also write a page with time and memory of the plans")
      ->type_name("FILE");
  command.add_option("--format", search.format, "output format: human or json (default: human)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
}

void declare_explain(CLI::App& command, LineArguments& line) {
  command
      .add_option("WORDS", line.explain.words,
                  "MODEL PLAN PATH (a path, a pattern or the key of a rule), the code of a diagnostic, or a style")
      ->required()
      ->expected(1, 3);
  command.add_option("--mesh", line.explain.mesh, "sizes of mesh axes (default: the plan's)")
      ->type_name("AXIS=SIZE")
      ->allow_extra_args(false);
}

void declare_show(CLI::App& command, LineArguments& line) {
  ShowArguments& arguments = line.show;
  command.add_option("MANIFEST", arguments.manifest, "manifest file")->required();
  command
      .add_option_function<int64_t>(
          "--rank", [&arguments](int64_t rank) { arguments.rank = rank; }, "show only the slices of this rank")
      ->type_name("RANK");
  command.add_option("--parameter", arguments.parameter, "show only this parameter")->type_name("PATH");
  command
      .add_option("--format", arguments.format,
                  "output format: human, or json with one object on each line (default: human)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
  CLI::Option* chart_option = command.add_flag("--chart", arguments.chart, "show the memory of each rank as bars");
  command.add_flag("--ascii", arguments.ascii, "draw chart and grid in ASCII (default: if the locale is not UTF-8)");
  CLI::Option* verify_option =
      command.add_flag("--verify", arguments.verify,
                       "verify that the manifest is consistent and matches its digest, and print only that");
  add_recipe(command, arguments.recipe,
             "optimizer and precision of training, for the memory of a step (default: adamw)");
  add_run(command, arguments.run, "for the memory between micro-batches: ", "--recipe overrides it");
  add_speeds(command, arguments.speeds, "estimate");
  for (const char* other :
       {"--rank", "--parameter", "--format", "--chart", "--ascii", "--recipe", "--topology", "--run"})
    verify_option->excludes(command.get_option(other));
  for (const char* other : {"--rank", "--parameter", "--format"}) {
    chart_option->excludes(command.get_option(other));
    command.get_option("--topology")->excludes(command.get_option(other));
    command.get_option("--run")->excludes(command.get_option(other));
  }
  for (const char* step : {"--topology", "--run"}) command.get_option(step)->excludes(chart_option);
}

void declare_report(CLI::App& command, LineArguments& line) {
  command.add_option("FILES", line.report.words, "manifest, or a model and a plan (MODEL PLAN)")
      ->required()
      ->expected(1, 2);
  command
      .add_option("--against", line.report.against, "older manifest to compare with; after MODEL PLAN: an older plan")
      ->type_name("FILE");
  command.add_option("-o,--output", line.report.output, "HTML file (default: standard output)")->type_name("FILE");
  add_recipe(command, line.report.recipe,
             "optimizer and precision of training, for the memory per rank (default: adamw)");
  command
      .add_option("--run", line.report.run,
                  "with MODEL PLAN and --topology: how the step runs (tpplan schema run); draw it over time, with its "
                  "memory; --batch, --sequence and --recipe override it")
      ->type_name("FILE");
  add_sizes(command, line.report.batch, line.report.sequence);
  add_speeds(command, line.report.speeds, "estimate");
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
  command.add_option("-o,--output", line.export_to.output, "output file (default: standard output)")->type_name("FILE");
  command.add_flag("--lossy", line.export_to.lossy,
                   "omit what the format cannot express, with warnings (default: errors)");
  command.add_flag("--python", line.export_to.python, "with torch: write a Python module (default: JSON)");
}

void declare_import(CLI::App& command, LineArguments& line) {
  command
      .add_option("FILE", line.import_from.file,
                  "specs file of tpplan export, safetensors file, index of safetensors files (.json), folder of "
                  "torch.distributed.checkpoint, or config.json")
      ->required();
  command
      .add_option("--from", line.import_from.format,
                  "format of the file: jax, shardy or torch for a plan; safetensors, dcp or config for a model")
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::IsMember(names_of(import_formats())));
  command
      .add_option("--model-config", line.import_from.config,
                  "config.json with the head counts of a safetensors or dcp model")
      ->type_name("FILE");
  command
      .add_option("-o,--output", line.import_from.output,
                  "model file, or plan file with its schema next to it for editors (default: standard output)")
      ->type_name("FILE");
  command.add_flag("--no-schema", line.import_from.no_schema,
                   "do not write the schema next to a plan, nor the plan's line with its name");
}

// Returns the dialects that `init` can draft: their plans name modules and styles.
std::vector<std::string> drafted_dialects() {
  std::vector<std::string> names;
  for (const DialectRow* row : dialect_table()) {
    if (row->keys == KeySyntax::Glob && !row->replicate_style.empty()) names.emplace_back(row->name);
  }
  return names;
}

void declare_init(CLI::App& command, LineArguments& line) {
  command
      .add_option("MODEL", line.draft.model,
                  "model graph, config.json, safetensors file or the index of its shards (.json)")
      ->required();
  command
      .add_option("--mesh", line.draft.mesh,
                  "mesh axes, such as tp=8 or fsdp=4,tp=8 (default: the largest of tp=8, 4, 2 that fits)")
      ->type_name("AXIS=SIZE")
      ->allow_extra_args(false);
  command.add_option("--dialect", line.draft.dialect, "dialect of the plan (default: glob)")
      ->type_name("NAME")
      ->check(CLI::IsMember(drafted_dialects()));
  command
      .add_option("--model-config", line.draft.config,
                  "config.json with the head counts of a safetensors model (default: the one next to the weights)")
      ->type_name("FILE");
  command
      .add_option("-o,--output", line.draft.output,
                  "plan file, with its schema next to it for editors (default: standard output)")
      ->type_name("FILE");
  command.add_flag("--force", line.draft.force, "replace an existing plan");
  add_run(command, line.draft.run, "with --topology: ", "(default: each key's)");
  command
      .add_option("--topology", line.draft.speeds,
                  "also print whether a step fits into the memory of this file's GPU; repeatable")
      ->type_name("[AXIS=]FILE")
      ->expected(1)
      ->take_all();
  command.add_flag("--no-schema", line.draft.no_schema,
                   "do not write the schema next to the plan, nor the plan's line with its name");
}

void declare_schema(CLI::App& command, LineArguments& line) {
  command
      .add_option("KIND", line.schema_kind,
                  "file format: model, plan, manifest, diagnostics, diff, suggestion, settings, baseline, topology, "
                  "run, program, propagation or search")
      ->required();
}

void declare_lint(CLI::App& command, LineArguments& line) {
  command.add_option("MODEL", line.lint.inputs.model, "model graph (JSON)")->required();
  command.add_option("PLAN", line.lint.inputs.plan, "sharding plan (YAML)")->required();
  std::vector<std::string> dialects;
  for (const DialectRow* row : dialect_table()) dialects.emplace_back(row->name);
  command
      .add_option("--dialect", line.lint.dialects,
                  "dialect to compare with; repeatable (default: all dialects with the plan's key syntax)")
      ->type_name("NAME")
      ->expected(1)
      ->take_all()
      ->check(CLI::IsMember(dialects));
  add_severity(command, line.gate);
}

void declare_diff(CLI::App& command, LineArguments& line) {
  command
      .add_option(
          "FILES", line.diff.words,
          "two manifests (OLD NEW), or a model and two plans (MODEL OLD NEW); with --base: MANIFEST, or MODEL PLAN")
      ->required()
      ->expected(1, 3);
  command
      .add_option_function<std::string>(
          "--base",
          [&arguments = line.diff](const std::string& ref) {
            arguments.base = ref;
            arguments.is_against_base = true;
          },
          "git commit of the old version: a branch, a tag or a hash")
      ->type_name("COMMIT");
  command
      .add_option("--format", line.diff.format,
                  "output format: human, json, or markdown for pull requests and job summaries (default: human)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(diff_format_names()));
  add_speeds(command, line.diff.speeds, "estimate");
  add_recipe(command, line.diff.recipe,
             "optimizer and precision of training, for the memory of a step (default: adamw)");
  add_run(command, line.diff.run, "of two plans: ");
  add_sizes(command, line.diff.batch, line.diff.sequence);
  command.add_flag("--exit-zero", line.diff.exit_zero, "exit with status 0 even if there are differences");
}

void declare_lsp(CLI::App& command, LineArguments& line) {
  command.add_option("--model", line.lsp.model, "model (JSON) of plans that are not in the `checks` of a .tpplan.yaml")
      ->type_name("FILE");
  command.add_flag("--stdio")->description("ignored, because stdio is the only transport");
}

void declare_rules(CLI::App& command, LineArguments& line) {
  command.add_option("--format", line.rules.format, "output format: human or json (default: human)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
}

void declare_propagate(CLI::App& command, LineArguments& line) {
  command.add_option("PROGRAM", line.propagate.program, "recorded StableHLO program (JSON)")->required();
  command.add_option("--format", line.propagate.format, "output format: human or json (default: human)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"human", "json"}));
}

void declare_fmt(CLI::App& command, LineArguments& line) {
  command
      .add_option("PLAN", line.fmt.plans,
                  "plan files to format in place; `-` formats standard input to standard output")
      ->required();
  command.add_flag("--check", line.fmt.check,
                   "only list the plans that would change; exit with status 1 if there are any");
  command.add_flag("--diff", line.fmt.diff, "only show the changes; exit with status 1 if there are any");
  command.add_option("-o,--output", line.fmt.output, "output file (default: the plan itself)")->type_name("FILE");
}

// The arguments of a command that flags, environment variables and the settings file determine together.
struct Settled {
  InputArguments* inputs = nullptr;  // --deny, --allow, --strict, --max-replicated
  std::string* format = nullptr;     // of diagnostics
  Project* project = nullptr;        // the plans to check without MODEL and PLAN
  std::string* baseline = nullptr;   // file of known diagnostics
};

struct CommandRow {
  std::string_view name, description;
  void (*declare)(CLI::App& command, LineArguments& line);
  int (*run)(const LineArguments& line);
  Settled (*settled)(LineArguments& line) = [](LineArguments&) { return Settled{}; };
  bool reads_settings = true;  // applies the settings file before it runs
};

// The subcommands, in the order of help, completions and the manual page.
constexpr CommandRow kCommands[] = {
    {"compile", "check a plan and write the sharding manifest", declare_compile,
     [](const LineArguments& line) { return cmd_compile(line.compile, line.common); },
     [](LineArguments& line) { return Settled{&line.compile.inputs}; }},
    {"check", "check a plan, or all plans in .tpplan.yaml", declare_check,
     [](const LineArguments& line) { return cmd_check(line.check, line.common); },
     [](LineArguments& line) {
       return Settled{&line.check.inputs, &line.check.format, &line.check.project, &line.check.baseline};
     }},
    {"init", "draft a plan for a model, with comments, and check it", declare_init,
     [](const LineArguments& line) { return cmd_init(line.draft, line.common); }},
    {"suggest", "list mesh sizes for which a plan is correct, and edits that fix it", declare_suggest,
     [](const LineArguments& line) { return cmd_suggest(line.suggest, line.common); },
     [](LineArguments& line) { return Settled{&line.suggest.inputs}; }},
    {"search", "find the best plan of a model for a number of ranks, with a proof", declare_search,
     [](const LineArguments& line) { return cmd_search(line.search, line.common); }},
    {"explain", "explain the sharding of a parameter or module, a diagnostic, or a style", declare_explain,
     [](const LineArguments& line) { return cmd_explain(line.explain, line.common); }},
    {"show", "print a manifest: overview, one parameter, or the slices of one rank", declare_show,
     [](const LineArguments& line) { return cmd_show(line.show, line.common); }},
    {"report", "write an HTML page about a manifest: memory, rules, shards, communication", declare_report,
     [](const LineArguments& line) { return cmd_report(line.report, line.common); }},
    {"export", "write the shardings of a manifest in the format of another program", declare_export,
     [](const LineArguments& line) { return cmd_export(line.export_to, line.common); }},
    {"import", "convert shardings of another program to a plan, or weights or a config to a model", declare_import,
     [](const LineArguments& line) { return cmd_import(line.import_from, line.common); }},
    {"propagate", "propagate the shardings of a recorded JAX program, and list the collectives of a step",
     declare_propagate, [](const LineArguments& line) { return cmd_propagate(line.propagate, line.common); }},
    {"schema", "print the JSON Schema of a file format", declare_schema,
     [](const LineArguments& line) { return cmd_schema(line.schema_kind); }},
    {"lint", "report keys of a plan that other dialects match differently", declare_lint,
     [](const LineArguments& line) { return cmd_lint(line.lint, line.common); },
     [](LineArguments& line) { return Settled{&line.lint.inputs}; }},
    {"rules", "list all diagnostics", declare_rules, [](const LineArguments& line) { return cmd_rules(line.rules); }},
    {"diff", "compare two manifests or two plans; exit with status 1 if they differ", declare_diff,
     [](const LineArguments& line) { return cmd_diff(line.diff, line.common); }},
    {"lsp", "run the language server for plans: diagnostics, hover, completion, fixes", declare_lsp,
     [](const LineArguments& line) {
       return cmd_lsp({line.lsp.model, line.config, line.no_config});
     },
     [](LineArguments&) { return Settled{}; }, false},
    {"fmt", "format plans, with their comments", declare_fmt,
     [](const LineArguments& line) { return cmd_fmt(line.fmt, line.common); }},
};

void declare_program(CLI::App& app, LineArguments& line) {
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();  // --config can follow the command
  app.set_version_flag("--version", std::string(kToolVersion));
  for (const CommandRow& row : kCommands) {
    CLI::App* command = app.add_subcommand(std::string(row.name), std::string(row.description));
    row.declare(*command, line);
    add_common(*command, line);
  }
  app.add_option("--config", line.config, "settings file (default: the nearest .tpplan.yaml)")
      ->type_name("FILE")
      ->envname("TPPLAN_CONFIG");
  app.add_flag("--no-config", line.no_config, "ignore settings files");
}

// Applies flags, environment variables and the settings file to the arguments of the command. Returns false after
// reporting an error.
[[nodiscard]] bool apply_line_settings(const CLI::App& command, const CommandRow& row, const ParsedLine& parsed,
                                       LineArguments& line) {
  Settings settings;
  if (!line.no_config && !load_settings(line.config, line.common.settings, settings)) return false;
  trace(line.common.verbose, "settings",
        settings.project.source.name.empty() ? std::string_view("none") : line.common.settings);
  const Settled settled = row.settled(line);
  if (settled.project != nullptr) *settled.project = settings.project;
  std::string no_format;
  apply_settings(command, settings, line.common.quiet, line.color,
                 settled.format != nullptr ? *settled.format : no_format,
                 settled.baseline != nullptr ? *settled.baseline : no_format);
  line.check.finds_baseline =
      settled.baseline != nullptr && settings.baseline && command.get_option("--baseline")->count() == 0;
  line.common.color = line.color == "always"  ? ColorChoice::Always
                      : line.color == "never" ? ColorChoice::Never
                                              : ColorChoice::Auto;
  return settled.inputs == nullptr || apply_gate(command, parsed, line.gate, settings, *settled.inputs);
}

int run(int argc, char** argv) {
  LineArguments line;
  CLI::App app{"Checks tensor-parallel plans and compiles them to sharding manifests.", "tpplan"};
  declare_program(app, line);
  ShellCommands for_shell;
  add_shell_commands(app, for_shell);
  const ParsedLine parsed = parse_line(app, argc, argv);
  if (parsed.status) return *parsed.status;
  if (is_requested(for_shell))
    return print_for_shell(app, for_shell, std::string(kToolVersion), kManualFiles) ? kExitFine : kExitUsage;
  const CLI::App& command = *app.get_subcommands().front();
  const CommandRow& row = *std::ranges::find(kCommands, command.get_name(), &CommandRow::name);
  if (line.check.watch) {
    if (line.check.inputs.model == "-" || line.check.inputs.plan == "-")
      return usage_error("--watch: standard input can be read only once: pass file names");
    int status = kExitFine;
    if (!run_at_each_change([&] { return watched_inputs(line.check, line.config, line.no_config); }, status))
      return status;
  }
  return !row.reads_settings || apply_line_settings(command, row, parsed, line) ? row.run(line) : kExitUsage;
}

}  // namespace

int tpplan::program_main(int argc, char** argv) {
  end_at_first_shortage("tpplan");
  return run_program("tpplan", run, argc, argv);
}
