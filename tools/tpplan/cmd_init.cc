#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "any_model.h"
#include "base/path_status.h"
#include "base/text.h"
#include "commands.h"
#include "inputs.h"
#include "plan/write_plan.h"
#include "plan_schema.h"
#include "report/render_step.h"
#include "suggest/draft_plan.h"
#include "suggest/price.h"
#include "timed_step.h"
#include "walk/walk_graph.h"

namespace tpplan {
namespace {

constexpr int64_t kSizesTried[] = {8, 4, 2};
constexpr std::string_view kStyleAxes[] = {"tp", "model"};

// Returns the axis that styles shard over: one with a known name, otherwise the last one.
AxisId style_axis(const Mesh& mesh) {
  for (const std::string_view name : kStyleAxes) {
    if (find_axis(mesh, name) != kNoAxis) return find_axis(mesh, name);
  }
  return static_cast<AxisId>(mesh.axes.size() - 1);
}

DraftPlan draft_on(Checker& checker, const DialectRow& dialect, const MeshSizes& sizes) {
  Mesh mesh;
  for (const auto& [name, size] : sizes) mesh.axes.push_back({name, size});
  return draft_plan(checker, dialect, mesh, style_axis(mesh));
}

// Returns the draft for the tp size with the fewest fallbacks; of equal ones, the largest size.
DraftPlan draft_anywhere(Checker& checker, const DialectRow& dialect) {
  DraftPlan best;
  for (const int64_t size : kSizesTried) {
    DraftPlan draft = draft_on(checker, dialect, {{"tp", size}});
    const bool is_first = best.plan.mesh.axes.empty();
    if (is_first || draft.fallbacks < best.fallbacks) best = std::move(draft);
    if (best.fallbacks == 0) break;
  }
  return best;
}

const DialectRow& dialect_called(const std::string& name) {
  const auto row = std::ranges::find(dialect_table(), name, [](const DialectRow* r) { return r->name; });
  return row == dialect_table().end() ? *dialect_table().front() : **row;
}

void add_header(DraftPlan& draft, const AnyModel& model, const std::string& path, bool with_schema) {
  std::vector<std::string>& lines = draft.comments.header;
  const std::string name = std::filesystem::path(path).filename().string();
  if (with_schema) lines.push_back(schema_line());
  lines.push_back(fmt::format("A draft plan for {}, written by `tpplan init`: edit it as needed.",
                              escape_for_terminal(model.graph.name)));
  lines.emplace_back();
  if (model.graph.operations.is_there)
    lines.emplace_back("It was checked operation by operation, forward and backward, for a training step.");
  else
    lines.emplace_back("The model has no operation graph: only names, shapes and heads were checked.");
  lines.emplace_back("Tensors without a rule (norms, biases after a reduction, small tensors) are replicated.");
  if (!model.format.empty())
    lines.push_back(
        fmt::format("Check it: tpplan import --from {} {} -o model.json, then tpplan check model.json PLAN.",
                    model.format, escape_for_terminal(name)));
}

int reject_draft(const DraftPlan& draft, const AnyModel& model) {
  std::string reasons;
  for (const std::string& reason : draft.reasons) reasons += fmt::format("  = note: {}\n", escape_for_terminal(reason));
  print(STDERR_FILENO, fmt::format("tpplan: error: no part of {} has a known sharding on {}\n{}",
                                   escape_for_terminal(model.graph.name), to_text(draft.plan.mesh), reasons));
  return kExitContent;
}

// Reads the run and the topologies. Returns the exit status.
int read_draft_step(const DraftArguments& arguments, const CommonArguments& common, std::vector<SpeedFile>& speeds,
                    Run& run) {
  SourceFile file{.id = 3};
  Diagnostics diagnostics;
  if (!arguments.run.empty()) run = read_run_input(arguments.run, file, diagnostics).run;
  std::ignore = read_speed_files(arguments.speeds, 4, speeds, diagnostics);
  std::vector<const SourceFile*> files{&file};
  for (const SpeedFile& speed : speeds) files.push_back(&speed.file);
  return print_diagnostics(diagnostics, sources_of(files), common);
}

// Prints whether a step of the draft fits into the topology's GPU. Returns the exit status.
int print_fit(const AnyModel& model, const TpPlan& plan, const CostInputs& inputs, const CommonArguments& common) {
  Diagnostics diagnostics;
  const std::optional<TrainingMemory> memory = memory_of_plan(model.graph, plan, inputs, diagnostics);
  std::vector<const SourceFile*> files{&model.file};
  for (const SpeedFile& speed : inputs.speeds) files.push_back(&speed.file);
  if (const int status = print_diagnostics(diagnostics, sources_of(files), common); status != kExitFine) return status;
  if (!memory || memory->overflow || common.quiet) return kExitFine;
  print(STDERR_FILENO, fmt::format("a step with recipe {} needs {} on rank 0: {}\n", inputs.run.recipe,
                                   human_bytes(reserved_of(*memory)),
                                   memory->capacity > 0 ? fits_text(*memory) : "the topology has no `memory_bytes`"));
  return kExitFine;
}

}  // namespace

int cmd_init(const DraftArguments& arguments, const CommonArguments& common) {
  MeshSizes sizes;
  if (!parse_mesh(arguments.mesh, sizes)) return kExitUsage;
  if (sizes.size() > kMaxAxes) return usage_error(fmt::format("--mesh: more than {} axes", kMaxAxes));
  const bool is_file = arguments.output != "-";
  const PathStatus found = is_file && !arguments.force ? lstat_path(arguments.output) : PathStatus{};
  if (found.error != 0) return reject_write(arguments.output, std::strerror(found.error));
  if (found.exists)
    return usage_error(
        fmt::format("{} already exists: pass --force to replace it", escape_for_terminal(arguments.output)));
  if (!arguments.run.empty() && arguments.speeds.empty())
    return usage_error("--run: only the memory of a step depends on it; add --topology");
  AnyModel model;
  if (const int status = read_any_model(arguments.model, arguments.config, common, model); status != kExitFine)
    return status;
  CostInputs step;
  std::vector<SpeedFile> speeds;
  if (const int status = read_draft_step(arguments, common, speeds, step.run); status != kExitFine) return status;
  step.speeds = speeds;
  std::vector<std::string> read = model.paths;
  if (!arguments.run.empty()) read.push_back(arguments.run);
  for (const std::string& word : arguments.speeds) read.push_back(speed_path(word));
  if (overwrites_input(arguments.output, read, common)) return kExitUsage;
  const DialectRow& dialect = dialect_called(arguments.dialect);
  if (dialect.runtime != PlanRuntime::Tpplan && model.graph.framework != Framework::Torch)
    return usage_error(fmt::format("--dialect {}: {} is a model of {}, which this dialect does not support",
                                   dialect.name, escape_for_terminal(model.graph.name),
                                   to_text(model.graph.framework)));
  Checker checker = make_checker(model.graph);
  DraftPlan draft = sizes.empty() ? draft_anywhere(checker, dialect) : draft_on(checker, dialect, sizes);
  if (draft.sharded_units == 0) return reject_draft(draft, model);
  const bool with_schema = is_file && !arguments.no_schema;
  add_header(draft, model, arguments.model, with_schema);
  const std::string text = write_plan(draft.plan, draft.comments);
  if (const std::string why = round_trip_error(text, draft.plan); !why.empty()) {
    print(STDERR_FILENO,
          fmt::format(
              "tpplan: error: cannot write the draft plan of {}: {}\n  = help: rename the module in this message\n",
              escape_for_terminal(model.graph.name), escape_for_terminal(why)));
    return kExitContent;
  }
  if (!common.quiet) {
    for (const std::string& finding : draft.findings)
      print(STDERR_FILENO, fmt::format("tpplan: warning: {}\n", escape_for_terminal(finding)));
    print(STDERR_FILENO, fmt::format("{} on {}: {} sharded{}\n", escape_for_terminal(model.graph.name),
                                     to_text(draft.plan.mesh), counted(draft.sharded_units, "part"),
                                     draft.fallbacks == 0
                                         ? std::string()
                                         : fmt::format("; {} replicated or sharded at a higher cost: see the comments",
                                                       draft.fallbacks)));
  }
  if (const int status = write_result(arguments.output, [&](const Sink& sink) { return sink(text); });
      status != kExitFine)
    return status;
  if (const int status = with_schema ? write_schema_next_to(arguments.output, common) : kExitFine; status != kExitFine)
    return status;
  return speeds.empty() ? kExitFine : print_fit(model, draft.plan, step, common);
}

}  // namespace tpplan
