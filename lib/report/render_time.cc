#include "report/render_time.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "report/html_text.h"

namespace tpplan {
namespace {

constexpr size_t kMaxLayerRows = 200;

// Returns the formula of the matmul time, one quotient per dtype: "1.2e+15 / (9.89e+14 x 60 %)", FLOPs over achieved
// FLOP/s.
std::string matmul_formula(const LayerCosts& layer, const Topology& topology, bool backward) {
  std::vector<std::string> terms;
  for (const MatmulWork& work : layer.work) {
    const uint64_t operations = backward ? work.backward + work.again : work.forward;
    if (operations == 0) continue;
    terms.push_back(fmt::format("{:.4g} / ({:.4g} × {:g}&nbsp;%)", static_cast<double>(operations),
                                peak_of(topology, work.dtype) / topology.efficiency, topology.efficiency * 100));
  }
  return terms.empty() ? "no matmuls" : join(terms, " + ");
}

std::string layers_table(const Manifest& manifest, const ReportTime& step) {
  static constexpr std::string_view heads[] = {
      "@Layers", "#Count", "#Forward", "FLOPs / reached FLOP/s", "#Backward", "Backward formula", "#Communication"};
  std::string rows;
  const size_t count = std::min(step.time.layers.size(), manifest.costs.layers.size());
  for (size_t i = 0; i < std::min(count, kMaxLayerRows); ++i) {
    const LayerTime& layer = step.time.layers[i];
    const LayerCosts& costs = manifest.costs.layers[i];
    const bool timed = step.time.has_matmul_speed;
    rows += row_html(heads, std::vector<std::string>{layer.layers.empty() ? "outside layers" : code(layer.layers),
                                                     grouped(layer.count), seconds_html(layer.forward),
                                                     timed ? matmul_formula(costs, step.topology, false) : "not timed",
                                                     seconds_html(layer.backward),
                                                     timed ? matmul_formula(costs, step.topology, true) : "not timed",
                                                     seconds_html(layer.communication)});
  }
  std::string out = table_html("Each layer", heads, rows);
  if (count > kMaxLayerRows)
    out += fmt::format("<p class=\"more\">And {} more.</p>\n", grouped(count - kMaxLayerRows, "row"));
  return out;
}

std::string axes_table(const Manifest& manifest, const ReportTime& step) {
  static constexpr std::string_view heads[] = {"Axis", "#Ranks n", "#Calls", "#Latency a", "#Bandwidth B", "#Time", ""};
  std::string rows;
  for (const AxisTime& axis : step.time.axes) {
    const MeshAxis& mesh_axis = manifest.mesh.axes[axis.axis];
    std::string how = axis.overlaps ? "may overlap with matmuls, not added" : "later operations wait for it";
    if (axis.link.timings > 0) how += fmt::format("; measured, {}", grouped(axis.link.timings, "timing"));
    rows +=
        row_html(heads, std::vector<std::string>{code(mesh_axis.name), grouped(static_cast<uint64_t>(mesh_axis.size)),
                                                 grouped(axis.calls), seconds_html(axis.link.latency),
                                                 fmt::format("{:.1f} GB/s", axis.link.bandwidth / 1e9),
                                                 seconds_html(axis.seconds), how});
  }
  return table_html("Collectives of the step", heads, rows);
}

std::string sums_table(const ReportTime& step) {
  static constexpr std::string_view heads[] = {"Part of the step", "#Time", "#Before"};
  static constexpr std::pair<std::string_view, double StepTime::*> kParts[] = {
      {"Matmuls, forward", &StepTime::forward},
      {"Matmuls, backward", &StepTime::backward},
      {"Waiting for collectives", &StepTime::waited},
      {"Collectives that overlap with matmuls, not added", &StepTime::hidden},
      {"Together", &StepTime::total}};
  const std::span<const std::string_view> shown = std::span(heads).first(step.before == nullptr ? 2 : 3);
  std::string rows;
  for (const auto& [name, part] : kParts) {
    std::vector<std::string> cells{std::string(name), seconds_html(step.time.*part)};
    if (step.before != nullptr) cells.push_back(seconds_html(step.before->*part));
    rows += row_html(shown, cells);
  }
  return table_html("Time of rank 0", shown, rows);
}

}  // namespace

std::string time_html(const Manifest& manifest, const ReportTime& step) {
  const Topology& topology = step.topology;
  const std::string& machine = topology.name.empty() ? topology.device : topology.name;
  std::string out = "<section id=\"time\">\n<h2>Time of a step</h2>\n<p>";
  out += machine.empty() ? "An estimate" : fmt::format("An estimate for {}", code(machine));
  out += ": matmuls in sequence at a share of the peak, collectives in rings, elementwise operations are not counted.";
  if (!step.time.has_matmul_speed) out += " The topology has no peak for these matmuls: they are not timed.";
  out += "</p>\n" + sums_table(step) + axes_table(manifest, step);
  out +=
      "<p>A call of S bytes over n ranks, a seconds a hop and B bytes a second: an all_reduce lasts 2 (n − 1) a + 2 (n "
      "− 1)/n S/B; all_gather, reduce_scatter and all_to_all last (n − 1) a + (n − 1)/n S/B.</p>\n";
  return out + layers_table(manifest, step) + "</section>\n";
}

}  // namespace tpplan
