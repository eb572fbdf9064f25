// The device mesh: named axes, major to minor. A rank is the row-major index of its mesh coordinate.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Index into Mesh::axes.
using AxisId = uint8_t;
inline constexpr AxisId kNoAxis = 0xff;
inline constexpr size_t kMaxAxes = 32;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

struct Mesh {
  std::vector<MeshAxis> axes;
};

// Product of all sizes; readers keep it below 2^31.
[[nodiscard]] int64_t device_count(const Mesh& mesh);

// Returns kNoAxis if the mesh has no axis of that name.
[[nodiscard]] AxisId find_axis(const Mesh& mesh, std::string_view name);

// Returns the mesh coordinate of a rank: an index for each axis.
// @post rank_of(mesh, coordinate_of(mesh, r)) == r for 0 <= r < device_count
[[nodiscard]] std::vector<int64_t> coordinate_of(const Mesh& mesh, int64_t rank);
[[nodiscard]] int64_t rank_of(const Mesh& mesh, std::span<const int64_t> coordinate);

// Returns the name of an axis for output: escaped, so that it is one word on one line.
[[nodiscard]] std::string axis_name(const Mesh& mesh, AxisId axis);

// Returns text such as "[fsdp=2, tp=4]".
[[nodiscard]] std::string to_text(const Mesh& mesh);

// Returns the mesh as a value of `--mesh`, such as "fsdp=2,tp=4". Names are not escaped.
[[nodiscard]] std::string mesh_option_text(const Mesh& mesh);

}  // namespace tpplan
