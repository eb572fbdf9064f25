// The sub-commands: arguments in a plain struct, exit status out. Each stands in a file of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compile.h"
#include "embedded.h"
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
};

struct CompileArguments {
  InputArguments inputs;
  std::string output = "-";
  std::string print;  // a phase, instead of the manifest
};

struct CheckArguments {
  InputArguments inputs;
  std::string format = "human";
  std::string stdin_filename;  // what findings call the input that is `-`
  bool costs = false;          // the collectives of a step, too
};

struct SuggestArguments {
  InputArguments inputs;
  std::string format = "human";
  int64_t most_ranks = 64;  // of the meshes that are tried
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
  bool chart = false;               // memory bars instead
  bool ascii = false;               // of the chart: no other characters
  std::string optimizer = "adamw";  // of the chart: whose state the bars count
};

struct ReportArguments {
  std::string manifest;
  std::string against;  // an older manifest; empty: none
  std::string output = "-";
  std::string optimizer = "adamw";
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
};

// Two manifests.
struct DiffArguments {
  std::string before, after;
  std::string format = "human";
  bool exit_zero = false;  // differences are no failure
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
[[nodiscard]] int cmd_report(const ReportArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_show(const ShowArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_diff(const DiffArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_fmt(const FmtArguments& arguments, const CommonArguments& common);
[[nodiscard]] int cmd_schema(const std::string& kind);
[[nodiscard]] int cmd_lint(const InputArguments& inputs, const CommonArguments& common);

// ---- shared by the commands ----

// `tpplan: error: message` on standard error; returns kExitUsage.
int usage_error(std::string_view message);

// Says that a manifest's sums leave 64 bits; returns kExitInternal, the status of a limit.
[[nodiscard]] int refuse_overflow(std::string_view manifest);

// Both inputs read and compiled. `usage` is set, and nothing read, when the arguments do not fit together.
struct Session {
  SourceFile model, plan{.id = 2};
  Compilation compilation;
  Diagnostics diagnostics;
  bool usage = false;
};

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

// The two or three lines that a successful compile says about its manifest.
[[nodiscard]] std::string summary(const Compilation& compilation, const Diagnostics& diagnostics);

}  // namespace tpplan
