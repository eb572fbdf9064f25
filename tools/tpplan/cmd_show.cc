#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "commands.h"
#include "cost/measure_manifest.h"
#include "cost/measure_training.h"
#include "inputs.h"
#include "manifest/write_manifest.h"
#include "report/render_chart.h"
#include "report/render_costs.h"
#include "report/render_grid.h"
#include "report/render_run.h"
#include "report/render_step.h"
#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"
#include "text/json_writer.h"
#include "timed_step.h"

namespace tpplan {
namespace {

std::string intervals_text(const std::vector<std::vector<Interval>>& slice) {
  std::vector<std::string> dims;
  for (const std::vector<Interval>& runs : slice) {
    std::vector<std::string> parts;
    for (const Interval& run : runs) parts.push_back(fmt::format("{}:{}", run.begin, run.end));
    dims.push_back(fmt::format("{}", fmt::join(parts, "+")));
  }
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string rank_line(const Manifest& manifest, const ManifestParam& param, const std::vector<int64_t>& coordinate,
                      PrintedAs as) {
  const ParamLayout& layout = layout_of(manifest, param);
  const auto slice = shard_slice(layout.shape, layout.sharding, manifest.mesh, coordinate);
  if (as != PrintedAs::Raw) {
    const std::string path = escape_for_terminal(path_of(manifest, param));
    return fmt::format("{}  {} of {}  {}\n", paint(path, kBold, as == PrintedAs::Painted),
                       shape_text(local_shape_of(layout, manifest.mesh, coordinate)), shape_text(layout.shape),
                       intervals_text(slice));
  }
  JsonWriter line;
  begin_object(line);
  write_field(line, "path", path_of(manifest, param));
  write_key(line, "intervals");
  write_array(line, slice, [&](const std::vector<Interval>& runs) {
    write_array(line, runs, [&](const Interval& run) { write_array(line, std::array{run.begin, run.end}); });
  });
  end_object(line);
  return line.out + '\n';
}

std::string param_text(const Manifest& manifest, const ManifestParam& param) {
  const ParamLayout& layout = layout_of(manifest, param);
  const Mesh& mesh = manifest.mesh;
  std::vector<std::string> locals;
  for (const auto& shape : layout.local_shapes) locals.push_back(shape_text(shape));
  std::string out = fmt::format("{}  {} {}\n", escape_for_terminal(path_of(manifest, param)), shape_text(layout.shape),
                                dtypes()[layout.dtype].name);
  out += fmt::format("  spec        {}\n  placements  {}\n", to_text(layout.sharding.spec, mesh),
                     layout.placements ? to_text(*layout.placements) : "none: segments of unequal size");
  for (const DimSegments& s : layout.sharding.segments)
    out += fmt::format("  segments    dim {}: {}\n", s.dim, shape_text(s.sizes));
  out += fmt::format("  each rank   {}\n", fmt::join(locals, ", "));
  out += fmt::format("  reason      {}", layout.reason);
  if (!layout.style.empty()) out += ", " + layout.style;
  if (layout.rule < manifest.rules.size())
    out += fmt::format(" by `{}` (line {})", escape_for_terminal(manifest.rules[layout.rule].key),
                       manifest.rules[layout.rule].line);
  out += fmt::format("\n  replicas    {}\n  gradient    {}\n", layout.replicas,
                     layout.grad_reduce.empty() ? "no reduction" : to_text(layout.grad_reduce, mesh));
  if (!layout.kind.empty())
    out += fmt::format(
        "  kind        {}{}\n", layout.kind,
        layout.dims.empty() ? "" : escape_for_terminal(fmt::format(" with dims ({})", fmt::join(layout.dims, ", "))));
  out += fmt::format("  init        {}\n", layout.init < manifest.distributions.size()
                                               ? to_text(manifest.distributions[layout.init])
                                               : "unspecified");
  return out;
}

std::string overview(const Manifest& m) {
  const ManifestTotals& t = m.totals;
  std::string out = fmt::format("{} on {}\n", escape_for_terminal(m.model_name), to_text(m.mesh));
  out += fmt::format("  {}, {} ({} elements), {}\n", counted(m.parameters.size(), "parameter"),
                     counted(m.buffers.size(), "buffer"), t.elements, human_bytes(t.bytes));
  out += fmt::format("  each rank at most {}, ideal {}, replicated {}\n", human_bytes(t.max_bytes_per_rank),
                     human_bytes(t.ideal_bytes_per_rank), human_bytes(t.replicated_bytes_per_rank));
  out += fmt::format("  {} with boundaries", counted(m.modules.size(), "module"));
  if (m.fsdp) out += fmt::format(", fsdp {} over {}", m.fsdp->policy, axis_name(m.mesh, m.fsdp->axis));
  out += "\n\nrules\n";
  for (const ManifestRule& rule : m.rules) {
    const std::string block = rule.in_block ? escape_for_terminal(rule.block) + " / " : "";
    out += fmt::format("  {:>6}  {}{}\n", rule.matches, block, escape_for_terminal(rule.key));
  }
  out += "\nspecs\n";
  std::vector<uint64_t> uses(m.layouts.size());
  for (const ManifestParam& param : m.parameters) ++uses[param.layout];
  std::vector<std::pair<std::string, uint64_t>> specs;
  for (size_t i = 0; i < uses.size(); ++i) {
    const std::string spec = to_text(m.layouts[i].sharding.spec, m.mesh);
    const auto known = std::find_if(specs.begin(), specs.end(), [&](const auto& s) { return s.first == spec; });
    if (known != specs.end())
      known->second += uses[i];
    else if (uses[i] > 0)
      specs.emplace_back(spec, uses[i]);
  }
  for (const auto& [spec, count] : specs) out += fmt::format("  {:>6}  {}\n", count, spec);
  return out;
}

TerminalStyle costs_look(const CommonArguments& common) {
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  return {.color = look.color, .width = look.width};
}

GridOptions grid_options(const ShowArguments& arguments, const CommonArguments& common) {
  return {.width = render_options(STDOUT_FILENO, common.color).width, .ascii = arguments.ascii || !is_utf8_locale()};
}

// The run of --run; otherwise only its recipe is used.
struct ShownRun {
  Run run;
  bool is_given = false;
};

// Returns the memory between steps under a run, and what a manifest does not tell of it.
std::string shown_run_text(const Manifest& manifest, const Run& run, const CommonArguments& common) {
  const TerminalStyle look = costs_look(common);
  const TrainingMemory held = measure_between_batches(manifest, run);
  std::string out = render_run(run, look) + paint("memory between micro-batches, rank 0", kBold, look.color) + '\n' +
                    (held.overflow ? " the sums of bytes exceed 64 bits\n" : memory_lines(held, look));
  const ManifestStep& step = manifest.step;
  if (manifest.has_collectives && (run.batch != step.batch || run.sequence != step.sequence))
    out += fmt::format("the collectives above are of batch {} and sequence {}, the run has batch {} and sequence {}\n",
                       step.batch, step.sequence, run.batch, run.sequence);
  return out +
         "a manifest has no operations, from which peak memory and time of a run follow:\n"
         " use tpplan check MODEL PLAN --costs --run RUN --topology FILE\n";
}

// Returns the collectives and the memory of a step, if the manifest lists them, and its time if a topology is given.
// With a run only the collectives are of its step.
std::string step_text(const Manifest& manifest, const std::optional<TimedStep>& timed, const ShownRun& run,
                      const CommonArguments& common) {
  const std::string of_run = run.is_given ? shown_run_text(manifest, run.run, common) : std::string();
  if (!manifest.has_collectives) return of_run;
  const CollectiveMeasure measure = measure_collectives(manifest.collectives, manifest.mesh);
  const TerminalStyle look = costs_look(common);
  return "\n" +
         render_costs({.measure = measure,
                       .mesh = manifest.mesh,
                       .batch = manifest.step.batch,
                       .sequence = manifest.step.sequence,
                       .has_data_axes = !data_axes_of(manifest).empty(),
                       .has_remat = !manifest.remat.empty(),
                       .units_axis = units_axis(manifest),
                       .unlisted = manifest.step.unlisted},
                      look) +
         (run.is_given ? of_run : render_memory(measure_training(manifest, *find_recipe(run.run.recipe)), look)) +
         (timed ? render_time(timed->time, manifest.mesh, timed->topology, look) : std::string());
}

int show_rank(const Manifest& manifest, const std::vector<const ManifestParam*>& params, int64_t rank, PrintedAs as) {
  const int64_t ranks = device_count(manifest.mesh);
  if (rank < 0 || rank >= ranks)
    return usage_error(
        fmt::format("--rank {}: the mesh {} has ranks 0 to {}", rank, to_text(manifest.mesh), ranks - 1));
  const std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, rank);
  const bool printed = print_parts(as, [&](const Sink& sink) {
    return std::all_of(params.begin(), params.end(),
                       [&](const ManifestParam* p) { return sink(rank_line(manifest, *p, coordinate, as)); });
  });
  return printed ? kExitFine : kExitUsage;
}

int show_chart(const Manifest& manifest, const ShowArguments& arguments, const Recipe& recipe,
               const CommonArguments& common) {
  const ManifestMeasure measure = measure_manifest(manifest, recipe);
  if (measure.overflow) return reject_overflow(arguments.manifest);
  const RenderOptions look = render_options(STDOUT_FILENO, common.color);
  const ChartOptions options{.width = look.width, .ascii = arguments.ascii || !is_utf8_locale(), .color = look.color};
  return print(STDOUT_FILENO, render_chart(manifest, measure, options), {.color = look.color}) ? kExitFine : kExitUsage;
}

int show(const Manifest& manifest, const std::optional<TimedStep>& timed, const ShownRun& run,
         const ShowArguments& arguments, const CommonArguments& common) {
  const bool json = arguments.format == "json";
  std::vector<const ManifestParam*> params;
  for (const auto* list : {&manifest.parameters, &manifest.buffers}) {
    for (const ManifestParam& param : *list) {
      const bool wanted =
          arguments.parameter.empty() ? list == &manifest.parameters : path_of(manifest, param) == arguments.parameter;
      if (wanted) params.push_back(&param);
    }
  }
  if (params.empty() && !arguments.parameter.empty()) {
    std::vector<std::string_view> paths;
    for (const ManifestParam& param : manifest.parameters) paths.push_back(path_of(manifest, param));
    std::string_view nearest = nearest_name(arguments.parameter, paths);
    const auto owns = [&](std::string_view path) {  // `arguments.parameter` is a module above the path
      return path.starts_with(arguments.parameter) && std::string_view("./").find(path[arguments.parameter.size()]) < 2;
    };
    if (const auto own = std::ranges::find_if(paths, owns); own != paths.end()) nearest = *own;
    return usage_error(fmt::format("the manifest has no parameter `{}`{}", escape_for_terminal(arguments.parameter),
                                   nearest.empty() ? "" : fmt::format(": did you mean `{}`?", nearest)));
  }
  const bool color = costs_look(common).color;
  const PrintedAs as = json ? PrintedAs::Raw : color ? PrintedAs::Painted : PrintedAs::Text;
  if (arguments.rank) return show_rank(manifest, params, *arguments.rank, as);
  std::string out;
  if (arguments.parameter.empty() && !json)
    out = paint_lines(overview(manifest), kFactPaints, color) + step_text(manifest, timed, run, common);
  else
    for (const ManifestParam* param : params)
      out += json ? param_json(manifest, *param) + "\n"
                  : paint_lines(param_text(manifest, *param), kFactPaints, color) +
                        render_grid(layout_of(manifest, *param), manifest.mesh, grid_options(arguments, common));
  return (json ? print_raw(STDOUT_FILENO, out) : print(STDOUT_FILENO, out, {.color = color})) ? kExitFine : kExitUsage;
}

// Prints that the manifest is consistent. read_manifest has already rejected one that contradicts itself or its digest.
int show_verdict(const Manifest& manifest, const std::string& path) {
  const std::string line = fmt::format(
      "{}: verified: {}, {} and {} of {} on {}\n", escape_for_terminal(path),
      counted(manifest.parameters.size(), "parameter"), counted(manifest.buffers.size(), "buffer"),
      counted(manifest.modules.size(), "module"), escape_for_terminal(manifest.model_name), to_text(manifest.mesh));
  return print(STDOUT_FILENO, line) ? kExitFine : kExitUsage;
}

}  // namespace

int cmd_show(const ShowArguments& arguments, const CommonArguments& common) {
  if (arguments.ascii && !arguments.chart && arguments.parameter.empty())
    return usage_error("--ascii requires --chart or --parameter");
  SourceFile file, run_file{.id = 3};
  Diagnostics diagnostics;
  const Manifest manifest = read_manifest_input(arguments.manifest, file, diagnostics);
  ShownRun run{.is_given = !arguments.run.empty()};
  if (run.is_given && !has_errors(diagnostics)) run.run = read_run_input(arguments.run, run_file, diagnostics).run;
  if (run.run.batch == 0) run.run.batch = manifest.step.batch;
  if (run.run.sequence == 0) run.run.sequence = manifest.step.sequence;
  if (!arguments.recipe.empty()) run.run.recipe = arguments.recipe;
  std::vector<SpeedFile> speeds;
  std::optional<TimedStep> timed;
  const bool wants_time = !arguments.speeds.empty() && !has_errors(diagnostics);
  if (wants_time && read_speed_files(arguments.speeds, 4, speeds, diagnostics) && !run.is_given)
    timed = time_manifest(manifest, speeds, diagnostics);
  std::vector<const SourceFile*> files{&file};
  if (run.is_given) files.push_back(&run_file);
  for (const SpeedFile& speed : speeds) files.push_back(&speed.file);
  const int status = print_diagnostics(diagnostics, sources_of(files), common);
  if (status != kExitFine) return status;
  if (arguments.verify) return show_verdict(manifest, arguments.manifest);
  if (wants_time && !timed && !run.is_given)
    print(STDERR_FILENO, fmt::format("{}: the time of a step is unknown: the manifest lists no operations\n",
                                     escape_for_terminal(arguments.manifest)));
  return arguments.chart ? show_chart(manifest, arguments, *find_recipe(run.run.recipe), common)
                         : show(manifest, timed, run, arguments, common);
}

}  // namespace tpplan
