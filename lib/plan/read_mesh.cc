#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "plan/plan_sections.h"

namespace tpplan {
namespace {

// Adds a help to the last diagnostic, which is about the size of an axis.
void explain_size(PlanReader& reader, YamlId id, std::string_view axis) {
  Diagnostic& d = reader.diagnostics.list.back();
  if (!d.help.empty()) return;
  const YamlNode& node = node_at(reader, id);
  const std::string& text = node.text;
  int64_t whole = 0;
  if (text.starts_with('$')) {
    d.help =
        fmt::format("set the size on the command line, because YAML does not expand variables: `--mesh {}=8`", axis);
    return;
  }
  if (node.kind == YamlKind::Sequence) {
    d.help = "write each axis as a key with its size: `mesh: {dp: 2, tp: 4}`";
    return;
  }
  if (parse_decimal(axis, whole) && !text.empty()) {
    d.help = fmt::format("write the name before the size: `{}: {}`", text, axis);
    return;
  }
  const size_t point = text.find('.');
  const bool is_integer = point != std::string::npos && text.find_first_not_of('0', point + 1) == std::string::npos &&
                          parse_decimal(std::string_view(text).substr(0, point), whole);
  d.help = is_integer ? fmt::format("write `{}`", whole)
                      : fmt::format("write the number of ranks of the axis, at least 1: `{}: 4`", axis);
  if (is_integer) propose_edit(reader, id, std::to_string(whole));
}

// Adds a help to the last diagnostic, that the mesh is no mapping.
void explain_mesh(PlanReader& reader, YamlId id) {
  Diagnostic& d = reader.diagnostics.list.back();
  std::string axes;  // of a mesh as the command line has it: `fsdp=2,tp=4`
  for (const std::string_view part : split(node_at(reader, id).text, ',')) {
    const size_t equals = part.find('=');
    int64_t size = 0;
    if (equals == std::string_view::npos || equals == 0 || !parse_decimal(part.substr(equals + 1), size)) {
      d.help = "name the axes with their sizes: `mesh: {tp: 8}`";
      return;
    }
    axes += fmt::format("{}{}: {}", axes.empty() ? "" : ", ", axis_text(part.substr(0, equals)), size);
  }
  d.help = fmt::format("write `mesh: {{{}}}`", axes);
  propose_edit(reader, id, fmt::format("{{{}}}", axes));
}

// Checks the product of the mesh sizes; `nodes` are the nodes of the sizes. Removes all axes of a mesh that is too
// large.
void check_sizes(PlanReader& reader, YamlId id, const std::vector<YamlId>& nodes) {
  Mesh& mesh = reader.plan.mesh;
  if (mesh.axes.size() > kMaxAxes)
    report_error(reader, Code::AxisSizeOutOfRange, id,
                 fmt::format("the mesh has {} axes, more than {}", mesh.axes.size(), kMaxAxes));
  constexpr int64_t kMaxDevices = int64_t{1} << 31;
  int64_t devices = 1;
  for (size_t i = 0; i < mesh.axes.size() && devices < kMaxDevices; ++i) {
    if (__builtin_mul_overflow(devices, std::max<int64_t>(mesh.axes[i].size, 1), &devices)) devices = kMaxDevices;
    if (devices >= kMaxDevices)
      report_error(reader, Code::AxisSizeOutOfRange, nodes[i],
                   "the product of the axis sizes up to this one is 2^31 devices or more");
  }
  if (devices >= kMaxDevices) mesh.axes.clear();
}

}  // namespace

void read_mesh(PlanReader& reader, YamlId id, const MeshSizes& replaced) {
  Mesh& mesh = reader.plan.mesh;
  std::vector<YamlId> sizes;
  const bool is_map = for_each_entry(reader, id, "`mesh`", [&](YamlId key, YamlId value) {
    MeshAxis axis{.name = node_at(reader, key).text, .size = 1};
    const auto other =
        std::find_if(replaced.begin(), replaced.end(), [&](const auto& r) { return r.first == axis.name; });
    if (axis.name.empty()) report_error(reader, Code::AxisSizeOutOfRange, key, "a mesh axis has an empty name");
    if (!read_integer(reader, value, fmt::format("the size of axis `{}`", axis.name), 1, axis.size,
                      Code::AxisSizeOutOfRange))
      explain_size(reader, value, axis.name);
    if (other != replaced.end()) axis.size = other->second;
    mesh.axes.push_back(std::move(axis));
    sizes.push_back(value);
    reader.plan.axis_spans.push_back(span_at(reader, key));
  });
  if (!is_map) explain_mesh(reader, id);
  if (mesh.axes.empty() && is_map)
    report_error(reader, Code::AxisSizeOutOfRange, id, "the mesh has no axes",
                 "write the axes and their sizes: `mesh: {tp: 8}`");
  check_sizes(reader, id, sizes);
}

void use_given_mesh(PlanReader& reader, YamlId id, const MeshSizes& given) {
  for (const auto& [name, size] : given) {
    reader.plan.mesh.axes.push_back({.name = name, .size = size});
    reader.plan.axis_spans.push_back(span_at(reader, id));
  }
  check_sizes(reader, id, std::vector<YamlId>(given.size(), id));
}

}  // namespace tpplan
