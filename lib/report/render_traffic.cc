#include "report/render_traffic.h"

#include <spdlog/fmt/fmt.h>

#include <vector>

#include "report/html_text.h"

namespace tpplan {
namespace {

std::string traffic_text(const AxisTraffic& traffic) {
  const bool scatter = traffic.kind == CollectiveKind::ReduceScatter, sum = traffic.kind == CollectiveKind::AllReduce;
  const std::string_view what = traffic.part == StepPart::Gather ? "parameters gathered for FSDP"
                                : sum                            ? "gradients summed"
                                : scatter                        ? "gradients summed and cut"
                                                                 : "gradients gathered to be cut again";
  return fmt::format("{} ({})", what, to_text(traffic.kind));
}

// Parameters and gradients: a row for each collective over an axis, and their sum where an axis has more than one.
std::string axes_html(const Manifest& manifest, const std::vector<AxisTraffic>& axes) {
  static constexpr std::string_view heads[] = {"Axis",          "What",           "#Tensors", "#Bytes at a time",
                                               "#Times a step", "#Sent by a rank"};
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
          "<tr class=\"sum\"><th scope=\"row\" colspan=\"5\">over {} together</th><td class=\"n\">{}</td></tr>\n", axis,
          bytes_html(sum));
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
                    b.kind == CollectiveKind::LocalSlice ? " <span class=\"muted\">moves nothing</span>" : "");
    rows += row_html(heads, std::vector<std::string>{code(manifest.mesh.axes[b.axis].name), kind,
                                                     b.backward ? "backward" : "forward", grouped(b.count)});
  }
  if (rows.empty()) return "<p>No module boundary has a collective.</p>\n";
  return table_html("Activations at module boundaries", heads, rows) +
         fmt::format(
             "<p class=\"more\">Their sizes depend on the batch: these are counts of places, not bytes. {}</p>\n",
             manifest.has_collectives ? "The section below has the calls of one step, with their bytes." : "");
}

}  // namespace

std::string traffic_html(const Manifest& manifest, const ManifestMeasure& measure) {
  return "<section id=\"traffic\">\n<h2>Bytes moved</h2>\n<p>One training step, seen from rank 0. Gradients have the "
         "type "
         "of their parameter; FSDP gathers once forward and once backward; a rank sends what a ring makes it "
         "send.</p>\n" +
         axes_html(manifest, measure.traffic.axes) + boundaries_html(manifest, measure.traffic.boundaries) +
         "</section>\n";
}

}  // namespace tpplan
