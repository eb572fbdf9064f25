// The collectives that bring a tensor from one sharding to another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "programs/axis_lists.h"

namespace tpplan::programs {

enum class ReshardKind : uint8_t { AllReduce, AllGather, AllToAll, CollectivePermute, ReduceScatter };

// A collective on one tensor, in the order of the calls.
struct ReshardStep {
  ReshardKind kind{};
  AxisParts axes;
  std::vector<AxisParts> before, after;  // the shardings of the tensor around it
};

// What the steps need to know of the mesh.
struct MeshAxes {
  std::span<const std::string> names;
  std::span<const int64_t> sizes;
};

// Returns the steps from one sharding, a list of axes for each dim, to another: slices, which send nothing and are left
// out, a permute, all-to-alls and a gather. Follows Shardy's reshard_to_collectives, so that axes that move between
// dims need no gather. @pre both have as many dims as `shape`, and no axis twice.
[[nodiscard]] std::vector<ReshardStep> reshard_steps(MeshAxes mesh, std::span<const int64_t> shape,
                                                     const std::vector<AxisParts>& from,
                                                     const std::vector<AxisParts>& to);

}  // namespace tpplan::programs
