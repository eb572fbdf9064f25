#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "plan/plan_sections.h"

namespace tpplan {

void read_mesh(PlanReader& reader, YamlId id, const MeshSizes& replaced) {
  Mesh& mesh = reader.plan.mesh;
  std::vector<YamlId> sizes;
  const bool is_map = for_each_entry(reader, id, "`mesh`", [&](YamlId key, YamlId value) {
    MeshAxis axis{.name = node_at(reader, key).text, .size = 1};
    const auto other =
        std::find_if(replaced.begin(), replaced.end(), [&](const auto& r) { return r.first == axis.name; });
    if (axis.name.empty()) fault(reader, Code::TP3009, key, "a mesh axis has an empty name");
    read_integer(reader, value, fmt::format("the size of axis `{}`", axis.name), 1, axis.size, Code::TP3009);
    if (other != replaced.end()) axis.size = other->second;
    mesh.axes.push_back(std::move(axis));
    sizes.push_back(value);
    reader.plan.axis_spans.push_back(span_at(reader, key));
  });
  if (mesh.axes.empty() && is_map) fault(reader, Code::TP3009, id, "the mesh has no axes", "mesh: {tp: 8}");
  if (mesh.axes.size() > kMaxAxes)
    fault(reader, Code::TP3009, id, fmt::format("{} axes are more than {}", mesh.axes.size(), kMaxAxes));
  constexpr int64_t kMaxDevices = int64_t{1} << 31;
  int64_t devices = 1;
  for (size_t i = 0; i < mesh.axes.size() && devices < kMaxDevices; ++i) {
    if (__builtin_mul_overflow(devices, std::max<int64_t>(mesh.axes[i].size, 1), &devices)) devices = kMaxDevices;
    if (devices >= kMaxDevices)
      fault(reader, Code::TP3009, sizes[i], "the axis sizes up to here multiply to 2^31 devices or more");
  }
  if (devices >= kMaxDevices) mesh.axes.clear();
}

}  // namespace tpplan
