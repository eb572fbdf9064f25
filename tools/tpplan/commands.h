// The subcommands. Each receives its arguments as a plain struct, returns the exit status and has a separate file.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compile.h"
#include "cost/recipes.h"
#include "embedded.h"
#include "project.h"
#include "terminal.h"
#include "topology/read_speeds.h"

namespace tpplan {

inline constexpr int kExitFine = 0, kExitContent = 1, kExitUsage = 2, kExitInternal = 3;

struct CommonArguments {
  ColorChoice color = ColorChoice::Auto;
  bool quiet = false;    // no summary
  bool verbose = false;  // print phases, times and the number of parameters that FSDP skips
  std::string settings;  // the settings file that was read; empty if none
};

// A model and a plan, the arguments of most commands.
struct InputArguments {
  std::string model, plan;
  std::vector<std::string> mesh;    // values of --mesh: "tp=8", "fsdp=4,tp=8"
  std::string runtime, mode;        // of the walk over operations; empty: the dialect's runtime, train
  int64_t batch = 0, sequence = 0;  // sizes that replace those of the traced step; 0 keeps them
  SeverityRules severity;
  double max_replicated = 1;  // maximum share of the model that is replicated; more is an error
  std::string within;         // folder that contains the model and the plan; empty: the user named them
  bool examples = false;      // also show the diagnostics of the walk with example numbers
  bool counted = false;       // also compute the memory and FLOPs of a step
  ManifestUse use = ManifestUse::Read;
};

struct CompileArguments {
  InputArguments inputs{.counted = true, .use = ManifestUse::Write};
  std::string output = "-";
  std::string print;  // phase to print instead of the manifest; empty if none
};

struct CheckArguments {
  InputArguments inputs{.use = ManifestUse::Totals};
  std::string format = "human";
  std::string stdin_filename;  // name in diagnostics of the input `-`
  bool costs = false;          // also print the costs of a step: collectives, memory, time with a topology
  std::string recipe;          // training recipe; empty: that of `run`, or else kDefaultRecipe
  std::string run;             // run file (topology/read_run.h); empty if none
  int64_t context = 0;         // of inference: tokens in the cache; 0: in decode the model's sequence, else no cache
  std::string cache_dtype;     // of the cache; empty: the model's
  std::vector<std::string> speeds;  // "FILE" or "AXIS=FILE": topologies, or timings in their place
  std::string trace;                // file for the timeline of the step; empty: none
  Project project;                  // of the settings file: the checks without a model and a plan
  bool fix = false;                 // first apply the edits of diagnostics to the plan
  bool diff = false;                // print the edits of `fix` as a diff, without writing them
  bool suggest = false;             // also suggest rules for parameters without a rule
  std::string baseline;             // file of known diagnostics; empty if none
  bool finds_baseline = false;      // the settings name the baseline
  bool write_baseline = false;      // write the diagnostics to the baseline
  bool watch = false;               // repeat the check whenever an input changes
};

struct SuggestArguments {
  InputArguments inputs;
  std::string format = "human";
  int64_t most_ranks = 64;          // maximum ranks of the tried meshes
  std::string run, recipe;          // as in CheckArguments
  std::vector<std::string> speeds;  // as in CheckArguments
};

struct ExplainArguments {
  std::vector<std::string> words;  // MODEL PLAN PATH; or the code or name of a diagnostic, or a style
  std::vector<std::string> mesh;
};

struct ShowArguments {
  std::string manifest;
  std::optional<int64_t> rank;
  std::string parameter;
  std::string format = "human";
  bool chart = false;               // print memory bars instead
  bool ascii = false;               // draw the chart in ASCII
  bool verify = false;              // print only that the manifest is consistent
  std::string recipe;               // training recipe for the overview and the chart; empty: that of `run`
  std::string run;                  // run file; empty if none
  std::vector<std::string> speeds;  // topologies for the time of a step, as in CheckArguments
};

struct ReportArguments {
  std::vector<std::string> words;  // MANIFEST, or MODEL PLAN
  std::string against;             // an older manifest, or after MODEL PLAN an older plan; empty if none
  std::string output = "-";
  std::string recipe;               // training recipe; empty: that of `run`, or else kDefaultRecipe
  std::string run;                  // run file; empty if none
  int64_t batch = 0, sequence = 0;  // of the step, as in InputArguments
  std::vector<std::string> speeds;  // topologies for the time of a step, as in CheckArguments
};

struct ExportArguments {
  std::string manifest, format;
  std::string output = "-";
  bool lossy = false;   // warn about parts of the plan that the format cannot express, instead of failing
  bool python = false;  // write the Python form of the format
};

// Converts a file of another program to a plan or a model.
struct ImportArguments {
  std::string file, format;
  std::string config;  // config.json of the weights; empty if none
  std::string output = "-";
  bool no_schema = false;  // write plans without a modeline and without a schema file
};

// Drafts a plan for a model, a config or weights.
struct DraftArguments {
  std::string model;
  std::string config;             // config.json of the weights; empty: the one next to them
  std::vector<std::string> mesh;  // empty: the largest of tp=8, 4 and 2 with the fewest fallbacks
  std::string dialect;
  std::string run;                  // run file of the step whose memory is printed; empty: the default run
  std::vector<std::string> speeds;  // topologies with the memory of a GPU; empty: no memory is printed
  std::string output = "-";
  bool force = false;      // replace an existing output
  bool no_schema = false;  // write the plan without a modeline and without a schema file
};

// Searches the best plan of a model for a number of ranks.
struct SearchArguments {
  std::string model;
  int64_t ranks = 0;
  int64_t batch = 0, sequence = 0;  // batch: of all ranks in one step
  std::string mesh;                 // sizes of axes that the search may choose; empty: any
  std::string memory;               // of a rank; empty: that of the topology
  std::string simple = "1%";        // what fewer kinds of layers may cost
  std::string minimize = "time", mode = "train";
  std::string run, recipe;          // run file, and the recipe that replaces its
  std::vector<std::string> speeds;  // topologies, as in CheckArguments
  std::string keep;                 // a plan to compare with; empty if none
  int64_t top = 5;                  // most meshes to print
  std::string output = "-";
  std::string report;  // page with the plans of the search; empty: none
  std::string format = "human";
};

// Compares two manifests, or two plans of a model, which are compiled. With a git commit, the old side is that version
// of a manifest, or of a model and a plan.
struct DiffArguments {
  std::vector<std::string> words;
  std::string base;  // the git commit, if `is_against_base`
  bool is_against_base = false;
  std::string format = "human";
  bool exit_zero = false;           // return 0 despite differences
  std::string run, recipe;          // as in CheckArguments
  int64_t batch = 0, sequence = 0;  // as in InputArguments
  std::vector<std::string> speeds;  // topologies for the time of a step, as in CheckArguments
};

// Returns the accepted values of `diff --format`.
[[nodiscard]] std::vector<std::string> diff_format_names();

// Reports keys that mean something else in other dialects.
struct LintArguments {
  InputArguments inputs;
  std::vector<std::string> dialects;  // dialects to compare with; empty: those with the same key syntax
};

// Lists the codes of all diagnostics.
struct RulesArguments {
  std::string format = "human";
};

// Propagates the shardings of a recorded StableHLO program, and lists the collectives of a step.
struct PropagateArguments {
  std::string program;
  std::string format = "human";
};

// Serves an editor with the Language Server Protocol.
struct EditorArguments {
  std::string model;   // model for plans without `checks`; empty if none
  std::string config;  // settings file; empty: the nearest one to each plan
  bool no_config = false;
};

// Formats plans.
struct FmtArguments {
  std::vector<std::string> plans;
  std::string output;  // empty: in place
  bool check = false;  // list plans that would change, write nothing
  bool diff = false;   // print the changes, write nothing
};

[[nodiscard]] int cmd_compile(const CompileArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_check(const CheckArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_suggest(const SuggestArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_search(const SearchArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_explain(const ExplainArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_export(const ExportArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_import(const ImportArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_init(const DraftArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_report(const ReportArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_show(const ShowArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_diff(const DiffArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_fmt(const FmtArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_schema(const std::string& kind);
[[nodiscard]] int cmd_propagate(const PropagateArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_rules(const RulesArguments& arguments);
[[nodiscard]] int cmd_lint(const LintArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_lsp(const EditorArguments& arguments);

// ---- shared by the commands ----

// Prints `tpplan: error: message` to standard error. Returns kExitUsage.
int usage_error(std::string_view message);

// Reports that the byte sums of a manifest overflow 64 bits. Returns kExitInternal, the status of a limit.
[[nodiscard]] int reject_overflow(std::string_view manifest);

// The two inputs and their compilation. `usage` is true after a usage error.
struct Session {
  SourceFile model, plan{.id = 2};
  SourceFile run{.id = 3};        // without a name if there is none
  std::vector<SpeedFile> speeds;  // ids from 4 on
  Compilation compilation;
  Diagnostics diagnostics;
  KnownFilter is_known;  // of a baseline
  bool usage = false;
};

// Parses words such as "fsdp=4,tp=8" into names and sizes. Returns the error text; empty without error.
[[nodiscard]] std::string mesh_error(const std::vector<std::string>& words, MeshSizes& sizes);

// Parses the values of --mesh. Returns false after a usage error.
[[nodiscard]] bool parse_mesh(const std::vector<std::string>& words, MeshSizes& sizes);

// Compiles the session's model and plan up to the phase `last`. @pre both were read; `sizes` are those of --mesh.
void compile_texts(Session& session, const InputArguments& inputs, const MeshSizes& sizes, Phase last,
                   const CommonArguments& common);

// Reads the model and the plan and compiles them up to the phase `last`.
void compile_session(Session& session, const InputArguments& inputs, Phase last, const CommonArguments& common);

// Returns the options of the walk over operations from the command line.
[[nodiscard]] WalkOptions walk_options(const InputArguments& inputs);

// Applies the plan's suppressions and the severity rules, and sorts the diagnostics. The diagnostic about replicated
// parameters comes first. A suppression without a match is reported only if `is_complete` is true for its code.
void check_session(Session& session, const InputArguments& inputs, const std::function<bool(Code)>& is_complete);

// Runs compile_session and check_session.
void run_session(Session& session, const InputArguments& inputs, Phase last, const CommonArguments& common);
[[nodiscard]] Sources sources_of(const Session& session);

// Returns the field `unchecked` of schemas/diagnostics.schema.json: the skipped checks of each gap.
[[nodiscard]] std::string unchecked_field(std::span<const ForecastLimit> limits);

// Returns the summary lines of a compiled manifest.
[[nodiscard]] std::string summary(const Compilation& compilation, const Diagnostics& diagnostics);

}  // namespace tpplan
