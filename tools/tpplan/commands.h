// The sub-commands: arguments in a plain struct, exit status out. Each stands in a file of its own.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile.h"
#include "cost/read_speeds.h"
#include "embedded.h"
#include "measure/recipes.h"
#include "project.h"
#include "terminal.h"

namespace tpplan {

inline constexpr int kExitFine = 0, kExitContent = 1, kExitUsage = 2, kExitInternal = 3;

struct CommonArguments {
  ColorChoice color = ColorChoice::Auto;
  bool quiet = false;    // no summary
  bool verbose = false;  // phases, times, what FSDP left alone
  std::string settings;  // the settings file that was read; empty: none
};

// A model and a plan, as most commands take them.
struct InputArguments {
  std::string model, plan;
  std::vector<std::string> mesh;    // "tp=8", "fsdp=4,tp=8"
  std::string runtime, mode;        // of the walk over operations; empty: by the dialect, train
  int64_t batch = 0, sequence = 0;  // of the recorded step, instead of its own; 0: its own
  SeverityRules severity;
  double max_replicated = 1;  // more of the model on every rank is an error
  bool examples = false;      // findings of the walk in numbers, too
  bool counted = false;       // memory and work of a step, too
};

struct CompileArguments {
  InputArguments inputs{.counted = true};
  std::string output = "-";
  std::string print;  // a phase, instead of the manifest
};

struct CheckArguments {
  InputArguments inputs;
  std::string format = "human";
  std::string stdin_filename;       // what findings call the input that is `-`
  bool costs = false;               // what a step costs, too: collectives, memory, and with a topology time
  std::string recipe;               // how the model is trained; empty: kDefaultRecipe
  std::vector<std::string> speeds;  // "FILE" or "AXIS=FILE": topologies, and timings in their place
  Project project;                  // of the settings file: what is checked without a model and a plan
  bool fix = false;                 // what findings propose is written into the plan first
  bool diff = false;                // and this only shown
  bool suggest = false;             // rules for what no rule covers, too
  std::string baseline;             // of known findings; empty: none
  bool write_baseline = false;      // what is found becomes known
  bool watch = false;               // again, whenever an input changes
};

struct SuggestArguments {
  InputArguments inputs;
  std::string format = "human";
  int64_t most_ranks = 64;             // of the meshes that are tried
  std::string recipe{kDefaultRecipe};  // how the model is trained
};

struct ExplainArguments {
  std::vector<std::string> words;  // MODEL PLAN PATH, or CODE
  std::vector<std::string> mesh;
};

struct ShowArguments {
  std::string manifest;
  std::optional<int64_t> rank;
  std::string parameter;
  std::string format = "human";
  bool chart = false;                  // memory bars instead
  bool ascii = false;                  // of the chart: no other characters
  std::string recipe{kDefaultRecipe};  // of the overview and the chart: how the model is trained
  std::vector<std::string> speeds;     // of the overview, as CheckArguments has them: for the time of a step
};

struct ReportArguments {
  std::string manifest;
  std::string against;  // an older manifest; empty: none
  std::string output = "-";
  std::string recipe{kDefaultRecipe};  // how the model is trained
  std::vector<std::string> speeds;     // as CheckArguments has them, for the time of a step
};

struct ExportArguments {
  std::string manifest, format;
  std::string output = "-";
  bool lossy = false;   // a loss is a warning
  bool python = false;  // the format's Python form
};

// A file of another program into a plan or a model.
struct ImportArguments {
  std::string file, format;
  std::string config;  // config.json of the weights; empty: none
  std::string output = "-";
  bool no_schema = false;  // of a plan: no modeline, and no schema beside it
};

// A first plan for a model, a config or weights.
struct DraftArguments {
  std::string model;
  std::string config;             // config.json of the weights; empty: the one beside them
  std::vector<std::string> mesh;  // empty: the largest of tp=8, 4 and 2 with which most is cut
  std::string dialect;
  std::string output = "-";
  bool force = false;      // an output that is there is replaced
  bool no_schema = false;  // no modeline, and no schema beside the plan
};

// Two manifests; or a model and two plans, which are compiled. With a commit of git the old side is what stands there:
// of one manifest, or of a model and a plan.
struct DiffArguments {
  std::vector<std::string> words;
  std::string base;  // the commit; `is_against_base` where it was given
  bool is_against_base = false;
  std::string format = "human";
  bool exit_zero = false;           // differences are no failure
  std::vector<std::string> speeds;  // as CheckArguments has them, for the time of a step
};

// What `diff --format` takes.
[[nodiscard]] std::vector<std::string> diff_format_names();

// Where other dialects read keys otherwise.
struct LintArguments {
  InputArguments inputs;
  std::vector<std::string> dialects;  // that are asked for; empty: those whose keys are written as the plan's
};

// The codes of all findings.
struct RulesArguments {
  std::string format = "human";
};

// A server for an editor.
struct EditorArguments {
  std::string model;   // of plans that no `checks` name; empty: there is none
  std::string config;  // settings file; empty: the one nearest to each plan
  bool no_config = false;
};

// Plans into their canonical layout.
struct FmtArguments {
  std::vector<std::string> plans;
  std::string output;  // empty: in place
  bool check = false;  // name what would change, write nothing
  bool diff = false;   // show what would change, write nothing
};

[[nodiscard]] int cmd_compile(const CompileArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_check(const CheckArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_suggest(const SuggestArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_explain(const ExplainArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_export(const ExportArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_import(const ImportArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_init(const DraftArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_report(const ReportArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_show(const ShowArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_diff(const DiffArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_fmt(const FmtArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_schema(const std::string& kind);
[[nodiscard]] int cmd_rules(const RulesArguments& arguments);
[[nodiscard]] int cmd_lint(const LintArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_lsp(const EditorArguments& arguments);

// ---- shared by the commands ----

// `tpplan: error: message` on standard error; returns kExitUsage.
int usage_error(std::string_view message);

// Says that a manifest's sums leave 64 bits; returns kExitInternal, the status of a limit.
[[nodiscard]] int refuse_overflow(std::string_view manifest);

// Both inputs read and compiled. `usage` is set, and nothing read, when the arguments do not fit together.
struct Session {
  SourceFile model, plan{.id = 2};
  std::vector<SpeedFile> speeds;  // ids from 3 on
  Compilation compilation;
  Diagnostics diagnostics;
  bool usage = false;
};

// "fsdp=4,tp=8" into names and sizes; what is wrong with the words, empty where nothing is.
[[nodiscard]] std::string mesh_fault(const std::vector<std::string>& words, MeshSizes& sizes);

// The same of --mesh; false after a usage error.
[[nodiscard]] bool parse_mesh(const std::vector<std::string>& words, MeshSizes& sizes);

// Compiles the session's two files, which have been read, up to `last`; `sizes` are those of --mesh.
void compile_texts(Session& session, const InputArguments& inputs, const MeshSizes& sizes, Phase last,
                   const CommonArguments& common);

// Reads the two files and compiles them up to `last`.
void compile_session(Session& session, const InputArguments& inputs, Phase last, const CommonArguments& common);

// How the operations are walked, as the command line says it.
[[nodiscard]] WalkOptions walk_options(const InputArguments& inputs);

// Applies the plan's suppressions, of which those of a code whose findings are complete must find one, and the severity
// rules; sorts the diagnostics, the gate's first.
void judge_session(Session& session, const InputArguments& inputs, const std::function<bool(Code)>& is_complete);

// Both, with what compile() reports.
void run_session(Session& session, const InputArguments& inputs, Phase last, const CommonArguments& common);
[[nodiscard]] Sources sources_of(const Session& session);

// The member `unchecked` of schemas/diagnostics.schema.json: each gap leaves checks out.
[[nodiscard]] std::string unchecked_member(std::span<const ForecastGap> gaps);

// The two or three lines that a successful compile says about its manifest.
[[nodiscard]] std::string summary(const Compilation& compilation, const Diagnostics& diagnostics);

}  // namespace tpplan
