#include "sharding/mesh.h"

#include "base/text.h"

namespace tpplan {

int64_t device_count(const Mesh& mesh) {
  int64_t count = 1;
  for (const MeshAxis& axis : mesh.axes) count *= axis.size;
  return count;
}

AxisId find_axis(const Mesh& mesh, std::string_view name) {
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].name == name) return static_cast<AxisId>(i);
  }
  return kNoAxis;
}

std::vector<int64_t> coordinate_of(const Mesh& mesh, int64_t rank) {
  std::vector<int64_t> coordinate(mesh.axes.size());
  for (size_t i = mesh.axes.size(); i-- > 0;) {
    coordinate[i] = rank % mesh.axes[i].size;
    rank /= mesh.axes[i].size;
  }
  return coordinate;
}

int64_t rank_of(const Mesh& mesh, std::span<const int64_t> coordinate) {
  int64_t rank = 0;
  for (size_t i = 0; i < mesh.axes.size(); ++i) rank = rank * mesh.axes[i].size + coordinate[i];
  return rank;
}

std::string axis_name(const Mesh& mesh, AxisId axis) { return escape_for_terminal(mesh.axes[axis].name); }

std::string to_text(const Mesh& mesh) {
  std::string text = "[";
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (i > 0) text += ", ";
    text += axis_name(mesh, static_cast<AxisId>(i)) + "=" + std::to_string(mesh.axes[i].size);
  }
  return text + "]";
}

std::string mesh_option_text(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes)
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

}  // namespace tpplan
