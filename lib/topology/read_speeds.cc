#include "topology/read_speeds.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "topology/read_timings.h"
#include "topology/read_topology.h"

namespace tpplan {
namespace {

// Assigns to the remaining axes the narrowest link that contains a group along them.
void set_links(SpeedTable& table, const Mesh& mesh, Span place, Diagnostics& diagnostics) {
  int64_t apart = 1;  // difference of adjacent ranks along the axis
  for (size_t axis = mesh.axes.size(); axis-- > 0;) {
    const MeshAxis& own = mesh.axes[axis];
    const int64_t span = apart * own.size;
    apart = span;
    if (own.size == 1 || table.known[axis]) continue;
    const std::vector<RankLink>& links = table.topology.links;
    const auto link =
        std::find_if(links.begin(), links.end(), [span](const RankLink& l) { return l.ranks == 0 || span <= l.ranks; });
    if (link != links.end())
      table.topology.axes[axis] = link->speed;
    else
      report_message(
          diagnostics, Code::MissingTopologyAxis, place,
          fmt::format("axis `{}` has no bandwidth and latency: its {} ranks span {}", own.name, own.size, span),
          fmt::format("write `axes: {{{}: {{bandwidth: 50e9, latency: 5e-6}}}}` or a last link without `ranks` into a "
                      "topology, or give timings with --topology {}=FILE",
                      own.name, own.name));
  }
}

// Returns the mesh axes of a group of timings. Reports an error if there is none.
std::vector<AxisId> axes_of(const AxisTimings& timings, const std::string& wanted, const Mesh& mesh,
                            Diagnostics& diagnostics) {
  const std::string& name = wanted.empty() ? timings.axis : wanted;
  std::vector<AxisId> axes;
  for (size_t at = 0; at < mesh.axes.size(); ++at) {
    const MeshAxis& axis = mesh.axes[at];
    if (name.empty() ? axis.size == timings.ranks : axis.name == name) axes.push_back(static_cast<AxisId>(at));
  }
  const std::string mesh_text = to_text(mesh);
  if (!name.empty() && axes.empty()) {
    report_message(diagnostics, Code::UnknownTopologyAxis, timings.span,
                   fmt::format("the plan's mesh {} has no axis `{}`", mesh_text, name), "name an axis of the mesh");
  } else if (axes.empty() || mesh.axes[axes[0]].size != timings.ranks) {
    const std::string has = axes.empty() ? fmt::format("no axis of the mesh {} has as many", mesh_text)
                                         : fmt::format("axis `{}` of the mesh has {}", name, mesh.axes[axes[0]].size);
    report_message(diagnostics, Code::TimingsRankMismatch, timings.span,
                   fmt::format("{} ranks were timed, but {}", timings.ranks, has),
                   "time as many ranks as the axis has, on the same machines");
    return {};
  } else if (axes.size() > 1) {
    report_message(diagnostics, Code::TimingsRankMismatch, timings.span,
                   fmt::format("{} ranks were timed, but {} axes of the mesh {} have as many", timings.ranks,
                               axes.size(), mesh_text),
                   fmt::format("name one: --topology {}=FILE", mesh.axes[axes[0]].name));
    return {};
  }
  return axes;
}

// Checks that the topology's device is a substring of the timings': "H100" of "NVIDIA H100 80GB HBM3".
void match_device(SpeedTable& table, const Timings& timings, Diagnostics& diagnostics) {
  if (timings.device.empty()) return;
  if (table.topology.device.empty()) {
    table.topology.device = timings.device;
  } else if (timings.device.find(table.topology.device) == std::string::npos) {
    report_message(
        diagnostics, Code::MixedMachines, timings.device_span,
        fmt::format("these timings are of `{}`, but other figures are of `{}`", timings.device, table.topology.device),
        "give figures of one kind of machine, or a topology without `device`");
  }
}

void take_timings(SpeedTable& table, const SpeedFile& from, const Mesh& mesh, Diagnostics& diagnostics) {
  const Timings timings = speed_file_kind(from.file) == SpeedFileKind::NcclTests
                              ? read_nccl_tests(from.file, diagnostics)
                              : read_run_timings(from.file, diagnostics);
  if (has_errors(diagnostics)) return;
  match_device(table, timings, diagnostics);
  bool is_used = false;
  for (const AxisTimings& group : timings.axes) {
    if (!from.axis.empty() && !group.axis.empty() && group.axis != from.axis) continue;
    is_used = true;
    for (const AxisId axis : axes_of(group, from.axis, mesh, diagnostics)) {
      table.topology.axes[axis] = fit_link(group.calls);
      table.known[axis] = true;
    }
  }
  if (!is_used)
    report_message(diagnostics, Code::TimingsRankMismatch, {from.file.id, 0, 1},
                   fmt::format("the file has no timings along `{}`", from.axis),
                   fmt::format("name an axis with timings: {}", timings.axes[0].axis));
}

}  // namespace

SpeedFileKind speed_file_kind(const SourceFile& file) {
  if (file.text.find("\"redistributions\"") != std::string::npos) return SpeedFileKind::Run;
  return file.text.find("busbw") != std::string::npos ? SpeedFileKind::NcclTests : SpeedFileKind::Topology;
}

Topology read_speeds(std::span<const SpeedFile> files, const Mesh& mesh, Diagnostics& diagnostics) {
  Diagnostics own;
  SpeedTable table;
  table.topology.axes.resize(mesh.axes.size());
  table.known.assign(mesh.axes.size(), false);
  for (const SpeedFile& from : files) {
    if (speed_file_kind(from.file) != SpeedFileKind::Topology) continue;
    if (!from.axis.empty())
      report_message(own, Code::InvalidTimings, {from.file.id, 0, 1},
                     fmt::format("axis `{}` needs timings, but this file has none", from.axis),
                     "give the output of nccl-tests or tpplan-exec run --json; give a topology without an axis");
    else
      read_topology(from.file, mesh, table, own);
  }
  for (const SpeedFile& from : files) {
    if (!has_errors(own) && speed_file_kind(from.file) != SpeedFileKind::Topology) take_timings(table, from, mesh, own);
  }
  table.topology.is_measured_axis = table.known;
  if (!has_errors(own) && !files.empty()) set_links(table, mesh, {files[0].file.id, 0, 1}, own);
  diagnostics.list.insert(diagnostics.list.end(), own.list.begin(), own.list.end());
  return std::move(table.topology);
}

}  // namespace tpplan
