#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "any_model.h"
#include "base/text.h"
#include "commands.h"
#include "inputs.h"
#include "manifest/coverage_gate.h"
#include "plan/read_plan.h"
#include "priced_run.h"
#include "report/render_search.h"
#include "report/render_search_page.h"
#include "search/find_best_plan.h"
#include "timed_step.h"

namespace tpplan {
namespace {

// What is left free of a topology's memory: CUDA's context, buffers of NCCL.
constexpr double kMargin = 0.08;

// ---- the command line ----

bool read_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 && value < 1e30;
}

// Reads "80GiB" (1024), "64GB" (1000) or a number of bytes.
bool read_size(std::string_view text, uint64_t& bytes) {
  constexpr std::string_view kUnits = "KMGT";
  const size_t unit = std::min(text.find_first_of("KMGTB"), text.size());
  std::string_view rest = text.substr(unit);
  double number = 0;
  if (!read_number(text.substr(0, unit), number)) return false;
  double factor = 1;
  if (!rest.empty() && rest.front() != 'B') {
    const size_t power = kUnits.find(rest.front()) + 1;
    rest.remove_prefix(1);
    const bool is_binary = rest.starts_with('i');
    if (is_binary) rest.remove_prefix(1);
    for (size_t i = 0; i < power; ++i) factor *= is_binary ? 1024 : 1000;
  }
  if (!rest.empty() && rest != "B") return false;
  const double scaled = number * factor;
  bytes = static_cast<uint64_t>(scaled + 0.5);
  return scaled < 1e18;
}

// Reads "dp,fsdp=2..4,tp=2": an axis that is not named has size 1.
bool read_bounds(const std::string& text, SearchRequest& request) {
  if (text.empty()) return true;
  const std::pair<std::string_view, AxisBounds*> axes[] = {
      {"dp", &request.dp}, {"fsdp", &request.fsdp}, {"tp", &request.tp}};
  for (const auto& [name, bounds] : axes) *bounds = {1, 1};
  std::vector<std::string_view> known;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const auto* const axis = std::ranges::find(axes, name, &std::pair<std::string_view, AxisBounds*>::first);
    if (axis == std::end(axes) || std::ranges::find(known, name) != known.end()) return false;
    known.push_back(name);
    *axis->second = {};
    if (equals == part.size()) continue;
    const std::string_view sizes = part.substr(equals + 1);
    const size_t dots = sizes.find("..");
    AxisBounds& bounds = *axis->second;
    const bool is_read = parse_decimal(sizes.substr(0, dots), bounds.least) &&
                         parse_decimal(dots == std::string_view::npos ? sizes : sizes.substr(dots + 2), bounds.most);
    if (!is_read || bounds.least < 1 || bounds.most < bounds.least) return false;
  }
  return true;
}

// Returns the error of the options; empty without error.
std::string read_request(const SearchArguments& arguments, SearchRequest& request) {
  request.ranks = arguments.ranks;
  request.batch = arguments.batch;
  request.sequence = arguments.sequence;
  request.top = static_cast<size_t>(arguments.top);
  request.objective = arguments.minimize == "memory"   ? Objective::Memory
                      : arguments.minimize == "tokens" ? Objective::Tokens
                                                       : Objective::Time;
  uint64_t bytes = 0;
  if (!arguments.memory.empty()) {
    if (!read_size(arguments.memory, bytes))
      return fmt::format("--memory {}: expected a size, such as 80GiB, 64GB or 85899345920",
                         escape_for_terminal(arguments.memory));
    request.memory = bytes;
  }
  if (!parse_share(arguments.simple, request.simple))
    return fmt::format("--simple {}: expected {}", escape_for_terminal(arguments.simple), kShareForm);
  if (!read_bounds(arguments.mesh, request))
    return fmt::format("--mesh {}: expected axes of dp, fsdp and tp, as in --mesh dp,fsdp=2..8,tp=2",
                       escape_for_terminal(arguments.mesh));
  request.has_samples = !arguments.report.empty();
  if (request.has_samples && (arguments.report == "-" || arguments.report == arguments.output))
    return arguments.report == "-" ? "--report: standard output has the answer; pass a file name"
                                   : "--report: this is the file of the plan; pass another file name";
  if (arguments.speeds.empty())
    return "--topology is required: the time of a step depends on the hardware, as in --topology "
           "plans/topologies/h100.yaml";
  return {};
}

// ---- the run ----

// The keys that the command line and the plan determine.
constexpr std::string_view kDeterminedKeys[] = {"batch", "sequence", "accumulation", "checkpointing", "loss"};

int read_run_of_search(const SearchArguments& arguments, const CommonArguments& common, Run& run) {
  SourceFile file{.id = 3};
  if (!arguments.run.empty()) {
    Diagnostics diagnostics;
    run = read_run_input(arguments.run, file, diagnostics).run;
    if (const int status = print_diagnostics(diagnostics, sources_of(file), common); status != kExitFine) return status;
    for (const std::string_view key : kDeterminedKeys) {
      if (std::ranges::find(run.given, key) == run.given.end()) continue;
      return usage_error(
          fmt::format("--run {}: `{}` is determined by the command line and the plan: remove it from the file",
                      escape_for_terminal(arguments.run), key));
    }
  }
  if (!arguments.recipe.empty()) run.recipe = arguments.recipe;
  return kExitFine;
}

// ---- the plan to compare with ----

struct ReferencePlan {
  SourceFile file{.id = 2};
  TpPlan plan;
  StepFigures figures;
};

int read_reference(const SearchArguments& arguments, const CommonArguments& common, ReferencePlan& reference) {
  Diagnostics diagnostics;
  if (read_input(arguments.keep, YamlLimits{}.bytes, reference.file, diagnostics))
    reference.plan = read_plan(reference.file, {}, diagnostics);
  if (const int status = print_diagnostics(diagnostics, sources_of(reference.file), common); status != kExitFine)
    return status;
  if (device_count(reference.plan.mesh) != arguments.ranks)
    return usage_error(fmt::format("--keep {}: its mesh {} has {} ranks, but --ranks is {}",
                                   escape_for_terminal(arguments.keep), to_text(reference.plan.mesh),
                                   device_count(reference.plan.mesh), arguments.ranks));
  return kExitFine;
}

int appraise_reference(const SearchArguments& arguments, const ModelGraph& model, const CostInputs& inputs,
                       ReferencePlan& reference) {
  int64_t data_ranks = 1;
  for (const AxisId axis : data_axes_of(reference.plan)) data_ranks *= reference.plan.mesh.axes[axis].size;
  std::string why =
      fmt::format("its data axes have {} ranks, which do not divide the batch {}", data_ranks, arguments.batch);
  if (arguments.batch % data_ranks == 0) {
    why.clear();
    Appraiser appraiser = make_appraiser(model, inputs, arguments.batch / data_ranks, arguments.sequence, 0, why);
    if (appraiser.graph != nullptr) {
      reference.figures = appraise(appraiser, reference.plan);
      why = reference.figures.why;
    }
  }
  if (reference.figures.is_right) return kExitFine;
  print(STDERR_FILENO,
        fmt::format("tpplan: error: --keep {}: {}\n", escape_for_terminal(arguments.keep), escape_for_terminal(why)));
  return kExitContent;
}

// ---- output ----

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// The command, with names of files instead of paths: the same in every folder.
std::string command_text(const SearchArguments& a) {
  std::string text = fmt::format("tpplan search {} --ranks {}", file_name(a.model), a.ranks);
  for (const std::string& speeds : a.speeds) text += fmt::format(" --topology {}", file_name(speeds));
  if (!a.run.empty()) text += fmt::format(" --run {}", file_name(a.run));
  if (!a.recipe.empty()) text += fmt::format(" --recipe {}", a.recipe);
  text += fmt::format(" --batch {}", a.batch);
  if (a.sequence > 0) text += fmt::format(" --sequence {}", a.sequence);
  const std::pair<std::string_view, const std::string&> options[] = {
      {"mesh", a.mesh}, {"memory", a.memory}, {"minimize", a.minimize}, {"mode", a.mode}, {"simple", a.simple}};
  const SearchArguments defaults;
  const std::string_view known[] = {"", "", defaults.minimize, defaults.mode, defaults.simple};
  for (size_t i = 0; i < std::size(options); ++i) {
    if (options[i].second != known[i]) text += fmt::format(" --{} {}", options[i].first, options[i].second);
  }
  return escape_for_terminal(text);
}

}  // namespace

int cmd_search(const SearchArguments& arguments, const CommonArguments& common) {
  SearchRequest request;
  if (const std::string fault = read_request(arguments, request); !fault.empty()) return usage_error(fault);
  AnyModel model;
  if (const int status = read_any_model(arguments.model, {}, common, model); status != kExitFine) return status;
  CostInputs inputs{.run = {}, .speeds = {}, .infer = arguments.mode == "infer"};
  if (const int status = read_run_of_search(arguments, common, inputs.run); status != kExitFine) return status;
  Session session;  // of the topologies and their measured steps
  if (read_speed_files(arguments.speeds, 4, session.speeds, session.diagnostics)) {
    Mesh mesh;
    mesh.axes.push_back({"tp", arguments.ranks});
    const Topology topology = read_speeds(session.speeds, mesh, session.diagnostics);
    if (!has_errors(session.diagnostics)) inputs.scale = fitted_scale(session, topology);
    if (!request.memory && topology.gpu.memory_bytes > 0)
      request.memory = static_cast<uint64_t>(topology.gpu.memory_bytes * (1 - kMargin));
  }
  std::vector<const SourceFile*> files;
  for (const SpeedFile& file : session.speeds) files.push_back(&file.file);
  if (const int status = print_diagnostics(session.diagnostics, sources_of(files), common); status != kExitFine)
    return status;
  inputs.speeds = session.speeds;
  std::vector<std::string> read = model.paths;
  for (const std::string& path : {arguments.run, arguments.keep}) {
    if (!path.empty()) read.push_back(path);
  }
  for (const std::string& path : arguments.speeds) read.push_back(speed_path(path));
  for (const std::string& path : {arguments.output, arguments.report}) {
    if (!path.empty() && overwrites_input(path, read, common)) return kExitUsage;
  }
  std::string why;
  const auto space = make_search_space(model.graph, why);
  if (!space)
    return usage_error(
        fmt::format("{} cannot be searched: {}", escape_for_terminal(model.graph.name), escape_for_terminal(why)));
  if (request.sequence == 0) request.sequence = model.graph.operations.sequence;
  ReferencePlan reference;
  if (!arguments.keep.empty()) {
    SearchArguments sized = arguments;
    sized.sequence = request.sequence;
    if (const int status = read_reference(arguments, common, reference); status != kExitFine) return status;
    if (const int status = appraise_reference(sized, model.graph, inputs, reference); status != kExitFine)
      return status;
  }
  const SearchAnswer answer = find_best_plan(model.graph, *space, inputs, request);
  std::optional<Shortage> shortage;
  if (answer.smallest && request.memory)
    shortage = explain_shortage(model.graph, *space, inputs, request, *answer.smallest);
  const SearchReport report{.model = model.graph.name,
                            .command = command_text(arguments),
                            .request = request,
                            .answer = answer,
                            .space = *space,
                            .file = arguments.output == "-" ? std::string() : file_name(arguments.output),
                            .reference_name = file_name(arguments.keep),
                            .reference_mesh = reference.plan.mesh,
                            .reference = arguments.keep.empty() ? nullptr : &reference.figures,
                            .shortage = shortage ? &*shortage : nullptr};
  const bool is_json = arguments.format == "json";
  const bool prints_plan = arguments.output == "-";
  if (answer.best) {
    const std::string text = search_plan_text(report);
    const ChosenPlan chosen = plan_of(*space, answer.best->choice);
    if (const std::string fault = round_trip_error(text, chosen.plan); !fault.empty()) {
      print(STDERR_FILENO, fmt::format("tpplan: error: cannot write the plan: {}\n", escape_for_terminal(fault)));
      return kExitContent;
    }
    if (!(is_json && prints_plan)) {
      const int status = write_result(arguments.output, [&](const Sink& sink) { return sink(text); });
      if (status != kExitFine) return status;
    }
  }
  if (!arguments.report.empty()) {
    const int status =
        write_result(arguments.report, [&](const Sink& sink) { return render_search_page(report, sink); });
    if (status != kExitFine) return status;
  }
  const int status = answer.best ? kExitFine : kExitContent;
  if (is_json) return print_raw(STDOUT_FILENO, search_json(report)) ? status : kExitUsage;
  if (common.quiet && answer.best) return status;
  const int descriptor = prints_plan || !answer.best ? STDERR_FILENO : STDOUT_FILENO;
  return print(descriptor, render_search(report)) ? status : kExitUsage;
}

}  // namespace tpplan
