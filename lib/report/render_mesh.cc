#include "report/render_mesh.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "report/html_text.h"
#include "report/render_timeline.h"

namespace tpplan {
namespace {

constexpr int64_t kMostHosts = 8, kMostColumns = 8, kMostRows = 16;
constexpr int64_t kGroupHues = 16;  // classes of the style sheet: h0 to h15

// The ranks of an axis are `stride` ranks apart.
struct AxisReach {
  AxisId axis = kNoAxis;
  int64_t size = 1, stride = 1;
};

// Returns the axes with several ranks, the innermost first.
std::vector<AxisReach> axis_reaches(const Mesh& mesh) {
  std::vector<AxisReach> reaches;
  int64_t stride = 1;
  for (size_t axis = mesh.axes.size(); axis-- > 0;) {
    const int64_t size = mesh.axes[axis].size;
    if (size > 1) reaches.push_back({static_cast<AxisId>(axis), size, stride});
    stride *= size;
  }
  return reaches;
}

std::string rank_text(const Mesh& mesh, int64_t rank) {
  const std::vector<int64_t> at = coordinate_of(mesh, rank);
  std::vector<std::string> words;
  for (size_t axis = 0; axis < at.size(); ++axis)
    words.push_back(fmt::format("{} {}", html(mesh.axes[axis].name), at[axis]));
  return fmt::format("rank {}: {}", rank, join(words, ", "));
}

// Returns the ranks [first, last) in one row. Ranks of a group of the innermost axis have one colour.
std::string ranks_row(const Mesh& mesh, int64_t first, int64_t last, int64_t columns, int64_t group) {
  std::string out =
      fmt::format("<svg class=\"bar ranks\" role=\"img\" aria-label=\"ranks {} to {}\">", first, last - 1);
  const double width = percent_of(1, static_cast<double>(columns));
  for (int64_t rank = first; rank < last; ++rank) {
    const double x = width * static_cast<double>(rank - first);
    out += fmt::format(
        "<g><title>{}</title><rect class=\"h{} l0\" x=\"{:.3f}%\" y=\"0\" width=\"{:.3f}%\" height=\"100%\"/><text "
        "x=\"{:.3f}%\" y=\"50%\">{}</text></g>",
        rank_text(mesh, rank), rank / group % kGroupHues, x, width, x + width / 2, rank);
  }
  return out + "</svg>\n";
}

std::string hosts_html(const Mesh& mesh, int64_t host, int64_t group) {
  const int64_t ranks = device_count(mesh), hosts = (ranks + host - 1) / host,
                columns = std::min({host, kMostColumns, ranks});
  std::string out = "<ul class=\"bars hosts\">\n";
  int64_t rows = 0, shown = 0;
  for (; shown < std::min(hosts, kMostHosts) && rows < kMostRows; ++shown) {
    const int64_t first = shown * host, last = std::min(ranks, first + host);
    out += fmt::format("<li><span class=\"who\">host {}</span> <span class=\"sum\">{}</span> <span class=\"bar\">",
                       shown, grouped(static_cast<uint64_t>(last - first), "rank"));
    for (int64_t rank = first; rank < last && rows < kMostRows; rank += columns, ++rows)
      out += ranks_row(mesh, rank, std::min(last, rank + columns), columns, group);
    out += "</span></li>\n";
  }
  out += "</ul>\n";
  if (hosts > shown)
    out += fmt::format("<p class=\"more\">And {} more, numbered on.</p>\n",
                       grouped(static_cast<uint64_t>(hosts - shown), "host"));
  return out;
}

std::string reach_html(const Mesh& mesh, const Topology& topology, const AxisReach& reach, int64_t host) {
  const MeshAxis& axis = mesh.axes[reach.axis];
  const int64_t span = reach.stride * reach.size;
  const std::string ranks = reach.stride == 1 ? "consecutive ranks" : fmt::format("ranks {} apart", reach.stride);
  std::string scope = "the topology has no <code>host_ranks</code>";
  if (host > 0 && span <= host)
    scope = "inside a host";
  else if (host > 0)
    scope =
        fmt::format("<strong>crosses the network</strong>, {} of a group on each host",
                    grouped(static_cast<uint64_t>(std::clamp<int64_t>(host / reach.stride, 1, reach.size)), "rank"));
  const std::string speed = reach.axis < topology.axes.size() && topology.axes[reach.axis].bandwidth > 0
                                ? fmt::format(", {:.4g} GB/s", topology.axes[reach.axis].bandwidth / 1e9)
                                : "";
  return description_item(code(axis.name), fmt::format("{} {}: {}{}", axis.size, ranks, scope, speed));
}

}  // namespace

std::string mesh_picture(const Mesh& mesh, const Topology& topology) {
  const std::vector<AxisReach> reaches = axis_reaches(mesh);
  if (reaches.empty()) return "<p>The mesh has one rank.</p>\n";
  const auto host = static_cast<int64_t>(topology.gpu.host_ranks);
  std::string out = hosts_html(mesh, host > 0 ? host : device_count(mesh), reaches.front().size);
  out += fmt::format("<p class=\"more\">Ranks of one colour are a group of {}.</p>\n<dl class=\"facts\">\n",
                     code(mesh.axes[reaches.front().axis].name));
  for (const AxisReach& reach : reaches) out += reach_html(mesh, topology, reach, host);
  return out + "</dl>\n";
}

}  // namespace tpplan
