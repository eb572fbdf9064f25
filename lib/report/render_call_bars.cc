#include "report/render_call_bars.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.h"
#include "report/html_text.h"

namespace tpplan {
namespace {

constexpr size_t kMaxCallBars = 32;  // the longest bars; the tables below list the others

// Bytes that a rank sends for a group of layers over an axis, with ring algorithms; saturate.
struct CallBar {
  const CallGroup* group = nullptr;
  AxisId axis = 0;
  uint64_t forward = 0, backward = 0;
};

uint64_t of_all_layers(const CallGroup& group, uint64_t bytes) {
  uint64_t all = 0;
  return __builtin_mul_overflow(bytes, group.count, &all) ? ~uint64_t{0} : all;
}

uint64_t sum(const CallBar& bar) {
  uint64_t all = 0;
  return __builtin_add_overflow(bar.forward, bar.backward, &all) ? ~uint64_t{0} : all;
}

std::vector<CallBar> bars_of(const CollectiveMeasure& measure) {
  std::vector<CallBar> bars;
  for (const CallGroup& group : measure.groups) {
    std::map<AxisId, CallBar> by_axis;
    for (const CallRow& row : group.forward) by_axis[row.call->axis].forward += row.sums.wire;
    for (const CallRow& row : group.backward) by_axis[row.call->axis].backward += row.sums.wire;
    for (const auto& [axis, bar] : by_axis)
      bars.push_back({.group = &group,
                      .axis = axis,
                      .forward = of_all_layers(group, bar.forward),
                      .backward = of_all_layers(group, bar.backward)});
  }
  std::erase_if(bars, [](const CallBar& bar) { return sum(bar) == 0; });
  return bars;
}

std::string bar_row(const CallBar& bar, const Mesh& mesh, double scale) {
  const std::string name =
      fmt::format("{} over {}", bar.group->layers.empty() ? "outside layers" : code(bar.group->layers),
                  code(mesh.axes[bar.axis].name));
  const double forward = 100 * static_cast<double>(bar.forward) / scale;
  const double backward = 100 * static_cast<double>(bar.backward) / scale;
  return fmt::format(
      "<li><span class=\"who\">{}</span> <span class=\"sum\">{}</span> <svg class=\"bar\" role=\"img\" "
      "aria-label=\"{} over {}: forward {}, backward {}\"><rect class=\"forward\" width=\"{:.3f}%\" "
      "height=\"100%\"/><rect "
      "class=\"backward\" x=\"{:.3f}%\" width=\"{:.3f}%\" height=\"100%\"/></svg></li>\n",
      name, bytes_html(sum(bar)), bar.group->layers.empty() ? "outside layers" : html(bar.group->layers),
      html(mesh.axes[bar.axis].name), human_bytes(bar.forward), human_bytes(bar.backward), forward, forward, backward);
}

}  // namespace

std::string call_bars_html(const CollectiveMeasure& measure, const Mesh& mesh) {
  std::vector<CallBar> bars = bars_of(measure);
  if (bars.empty()) return "";
  const size_t more = bars.size() > kMaxCallBars ? bars.size() - kMaxCallBars : 0;
  if (more > 0) {
    std::stable_sort(bars.begin(), bars.end(), [](const CallBar& a, const CallBar& b) { return sum(a) > sum(b); });
    bars.resize(kMaxCallBars);
  }
  uint64_t longest = 0;
  for (const CallBar& bar : bars) longest = std::max(longest, sum(bar));
  std::string out = "<figure>\n<figcaption>Sent by a rank in one step, all layers of a kind together</figcaption>\n";
  out += "<ul class=\"bars calls\">\n";
  for (const CallBar& bar : bars) out += bar_row(bar, mesh, static_cast<double>(longest));
  out +=
      "</ul>\n<ul class=\"legend\">\n<li><svg aria-hidden=\"true\"><rect class=\"forward\" width=\"100%\" "
      "height=\"100%\"/></svg>forward</li>\n<li><svg aria-hidden=\"true\"><rect class=\"backward\" width=\"100%\" "
      "height=\"100%\"/></svg>backward</li>\n</ul>\n";
  if (more > 0) out += fmt::format("<p class=\"more\">And {} more, each shorter.</p>\n", grouped(more, "bar"));
  return out + "</figure>\n";
}

}  // namespace tpplan
