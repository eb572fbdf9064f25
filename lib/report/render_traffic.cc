#include "report/render_traffic.h"

#include <spdlog/fmt/fmt.h>

#include <vector>

#include "report/html_text.h"

namespace tpplan {
namespace {

std::string traffic_text(const AxisTraffic& traffic) {
  const bool scatter = traffic.kind == CollectiveKind::ReduceScatter, sum = traffic.kind == CollectiveKind::AllReduce;
  const std::string_view what = traffic.part == StepPart::Gather ? "parameters gathered for FSDP"
                                : sum                            ? "gradients reduced"
                                : scatter                        ? "gradients reduced and scattered"
                                                                 : "gradients gathered to be sharded again";
  return fmt::format("{} ({})", what, to_text(traffic.kind));
}

// Returns the table of parameters and gradients: a row per collective and axis, and a sum for each axis with several.
std::string axes_html(const Manifest& manifest, const std::vector<AxisTraffic>& axes) {
  static constexpr std::string_view heads[] = {"Axis",          "What",           "#Tensors", "#Bytes per call",
                                               "#Calls a step", "#Sent by a rank"};
  std::string rows;
  uint64_t sum = 0, kinds = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const AxisTraffic& t = axes[i];
    const std::string axis = code(manifest.mesh.axes[t.axis].name);
    rows += row_html(heads, std::vector<std::string>{axis, traffic_text(t), grouped(t.tensors), bytes_html(t.payload),
                                                     std::to_string(t.times), bytes_html(t.sent)});
    sum += t.sent;
    ++kinds;
    if (i + 1 < axes.size() && axes[i + 1].axis == t.axis) continue;
    if (kinds > 1)
      rows += fmt::format(
          "<tr class=\"sum\"><th scope=\"row\" colspan=\"5\">over {} together</th><td class=\"n\" data-head=\"Sent by "
          "a rank\">{}</td></tr>\n",
          axis, bytes_html(sum));
    sum = kinds = 0;
  }
  return rows.empty() ? "<p>No gradient is reduced over an axis, and no parameter is gathered.</p>\n"
                      : table_html("Parameters and gradients, by axis", heads, rows);
}

std::string boundaries_html(const Manifest& manifest, const std::vector<BoundaryTraffic>& boundaries) {
  static constexpr std::string_view heads[] = {"Axis", "Collective", "Pass", "#Places"};
  std::string rows;
  for (const BoundaryTraffic& b : boundaries) {
    const std::string kind =
        fmt::format("{}{}", to_text(b.kind),
                    b.kind == CollectiveKind::LocalSlice ? " <span class=\"muted\">no communication</span>" : "");
    rows += row_html(heads, std::vector<std::string>{code(manifest.mesh.axes[b.axis].name), kind,
                                                     b.backward ? "backward" : "forward", grouped(b.count)});
  }
  if (rows.empty()) return "<p>No module boundary has a collective.</p>\n";
  return table_html("Activations at module boundaries", heads, rows) +
         fmt::format("<p class=\"more\">Their sizes depend on the batch: the table counts places, not bytes. {}</p>\n",
                     manifest.has_collectives ? "The section below lists the calls of one step with their bytes." : "");
}

}  // namespace

std::string traffic_html(const Manifest& manifest, const ManifestMeasure& measure) {
  return "<section id=\"traffic\">\n<h2>Bytes moved</h2>\n<p>One training step on rank 0. Gradients have the dtype of "
         "their parameter; FSDP gathers once forward and once backward; a rank sends the bytes of a ring.</p>\n" +
         axes_html(manifest, measure.traffic.axes) + boundaries_html(manifest, measure.traffic.boundaries) +
         "</section>\n";
}

}  // namespace tpplan
