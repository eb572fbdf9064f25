// Laws of shardings, exhaustive over all specs of small shapes on small meshes.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "manifest/manifest.h"
#include "resolve/infer/apply_fsdp.h"
#include "sharding/check_sharding.h"
#include "sharding/placement.h"
#include "sharding/shard_slice.h"

using namespace tpplan;

namespace {

const std::vector<Mesh> kMeshes = {
    {.axes = {{"a", 2}}},
    {.axes = {{"a", 3}}},
    {.axes = {{"a", 2}, {"b", 2}}},
    {.axes = {{"a", 2}, {"b", 3}}},
    {.axes = {{"a", 2}, {"b", 2}, {"c", 2}}},
    {.axes = {{"a", 1}, {"b", 2}}},
};

// Calls `visit` with every spec: each mesh axis shards no dim or one, in every order of the axes that share a dim.
void for_each_spec(const Mesh& mesh, size_t ndim, const std::function<void(const PartitionSpec&)>& visit) {
  std::vector<AxisId> order;
  for (size_t i = 0; i < mesh.axes.size(); ++i) order.push_back(static_cast<AxisId>(i));
  std::set<PartitionSpec> seen;
  do {
    size_t choices = 1;
    for (size_t i = 0; i < order.size(); ++i) choices *= ndim + 1;
    for (size_t choice = 0; choice < choices; ++choice) {
      PartitionSpec spec = replicated_spec(ndim);
      size_t rest = choice;
      for (const AxisId axis : order) {
        const size_t dim = rest % (ndim + 1);
        rest /= ndim + 1;
        if (dim < ndim) spec[dim].push_back(axis);
      }
      if (seen.insert(spec).second) visit(spec);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

const std::vector<std::vector<int64_t>> kShapes = {{0}, {1},  {2},    {3},    {4},    {5},    {6},    {7},
                                                   {8}, {12}, {2, 3}, {4, 6}, {5, 4}, {1, 8}, {0, 4}, {4, 2, 3}};

void for_each_case(const std::function<void(const std::vector<int64_t>&, const PartitionSpec&, const Mesh&)>& visit) {
  for (const Mesh& mesh : kMeshes) {
    for (const std::vector<int64_t>& shape : kShapes) {
      for_each_spec(mesh, shape.size(), [&](const PartitionSpec& spec) { visit(shape, spec, mesh); });
    }
  }
}

// Returns how many ranks have each element (row-major), for the mesh axes in the spec; other axes stay at 0.
std::vector<int> count_owners(const std::vector<int64_t>& shape, const Sharding& sharding, const Mesh& mesh) {
  std::vector<int> owners(static_cast<size_t>(std::max<int64_t>(0, [&] {
    int64_t n = 1;
    for (const int64_t s : shape) n *= s;
    return n;
  }())));
  for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
    const std::vector<int64_t> coordinate = coordinate_of(mesh, rank);
    bool first_replica = true;
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      if (coordinate[axis] != 0 && !uses_axis(sharding.spec, static_cast<AxisId>(axis))) first_replica = false;
    }
    if (!first_replica) continue;
    const auto slice = shard_slice(shape, sharding, mesh, coordinate);
    const std::function<void(size_t, size_t)> walk = [&](size_t dim, size_t index) {
      if (dim == shape.size()) {
        ++owners[index];
        return;
      }
      for (const Interval& run : slice[dim]) {
        for (int64_t i = run.begin; i < run.end; ++i)
          walk(dim + 1, index * static_cast<size_t>(shape[dim]) + static_cast<size_t>(i));
      }
    };
    walk(0, 0);
  }
  return owners;
}

}  // namespace

TEST_CASE("law: the slices of a spec tile the tensor, even and uneven") {
  for_each_case([](const auto& shape, const PartitionSpec& spec, const Mesh& mesh) {
    for (const int owners : count_owners(shape, {.spec = spec, .segments = {}}, mesh)) REQUIRE(owners == 1);
  });
}

TEST_CASE("law: the slices of fused dims tile the tensor") {
  const std::vector<std::vector<int64_t>> segments = {{6, 6}, {4, 8}, {1, 11}, {0, 12}, {4, 4, 4}, {8, 2, 2}};
  for (const Mesh& mesh : kMeshes) {
    for (const auto& sizes : segments) {
      for_each_spec(mesh, 1, [&](const PartitionSpec& spec) {
        if (spec[0].empty()) return;
        for (const int owners : count_owners({12}, {.spec = spec, .segments = {{0, sizes}}}, mesh))
          REQUIRE(owners == 1);
      });
    }
  }
}

TEST_CASE("law: local shapes are the lengths of the slices") {
  for_each_case([](const auto& shape, const PartitionSpec& spec, const Mesh& mesh) {
    const Sharding sharding{.spec = spec, .segments = {}};
    for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
      const std::vector<int64_t> coordinate = coordinate_of(mesh, rank);
      const auto slice = shard_slice(shape, sharding, mesh, coordinate);
      const auto local = local_shape(shape, sharding, mesh, coordinate);
      for (size_t dim = 0; dim < shape.size(); ++dim) REQUIRE(length(slice[dim][0]) == local[dim]);
    }
  });
}

TEST_CASE("law: a spec is legal exactly if all shards are equal") {
  for_each_case([](const auto& shape, const PartitionSpec& spec, const Mesh& mesh) {
    const Sharding sharding{.spec = spec, .segments = {}};
    const bool legal = check_sharding(shape, sharding, mesh, UnevenPolicy::Error).empty();
    REQUIRE(legal == is_even(shape, sharding, mesh));
    REQUIRE(check_sharding(shape, sharding, mesh, UnevenPolicy::Torch).empty());
  });
}

TEST_CASE("law: specs round-trip through placements for axes above 1") {
  for (const Mesh& mesh : kMeshes) {
    if (std::any_of(mesh.axes.begin(), mesh.axes.end(), [](const MeshAxis& axis) { return axis.size == 1; })) continue;
    for (size_t ndim = 1; ndim <= 3; ++ndim) {
      for_each_spec(mesh, ndim, [&](const PartitionSpec& spec) {
        const auto placements = placements_of({.spec = spec, .segments = {}}, mesh);
        REQUIRE(placements);
        PartitionSpec back;
        REQUIRE(spec_of(*placements, mesh, ndim, back));
        REQUIRE(back == spec);
      });
    }
  }
}

TEST_CASE("law: torch placements give the slices of the spec") {
  // In mesh order, Shard selects one of n intervals, and StridedShard(d, k) selects one of n intervals in each of k
  // groups.
  for (const Mesh& mesh : kMeshes) {
    const int64_t size = 24;
    for_each_spec(mesh, 1, [&](const PartitionSpec& spec) {
      const Sharding sharding{.spec = spec, .segments = {}};
      const auto placements = *placements_of(sharding, mesh);
      for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
        const std::vector<int64_t> coordinate = coordinate_of(mesh, rank);
        std::vector<int64_t> held(static_cast<size_t>(size));
        for (int64_t i = 0; i < size; ++i) held[static_cast<size_t>(i)] = i;
        for (size_t axis = 0; axis < placements.size(); ++axis) {
          if (placements[axis].kind == PlacementKind::Replicate) continue;
          const int64_t groups =
              placements[axis].kind == PlacementKind::StridedShard ? placements[axis].split_factor : 1;
          const int64_t group = static_cast<int64_t>(held.size()) / groups, piece = group / mesh.axes[axis].size;
          std::vector<int64_t> kept;
          for (int64_t g = 0; g < groups; ++g) {
            const auto begin = held.begin() + g * group + coordinate[axis] * piece;
            kept.insert(kept.end(), begin, begin + piece);
          }
          held = kept;
        }
        const Interval run = shard_slice(std::vector<int64_t>{size}, sharding, mesh, coordinate)[0][0];
        REQUIRE(static_cast<int64_t>(held.size()) == length(run));
        for (size_t i = 0; i < held.size(); ++i) REQUIRE(held[i] == run.begin + static_cast<int64_t>(i));
      }
    });
  }
}

TEST_CASE("law: ranks and coordinates are inverse to each other") {
  for (const Mesh& mesh : kMeshes) {
    for (int64_t rank = 0; rank < device_count(mesh); ++rank) REQUIRE(rank_of(mesh, coordinate_of(mesh, rank)) == rank);
  }
}

TEST_CASE("law: listed local shapes match the shards of each rank") {
  for_each_case([](const auto& shape, const PartitionSpec& spec, const Mesh& mesh) {
    ParamLayout layout;
    layout.shape = shape;
    layout.sharding = {.spec = spec, .segments = {}};
    layout.local_shapes = list_local_shapes(shape, layout.sharding, mesh);
    for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
      const std::vector<int64_t> coordinate = coordinate_of(mesh, rank);
      REQUIRE(local_shape_of(layout, mesh, coordinate) == local_shape(shape, layout.sharding, mesh, coordinate));
    }
  });
}

TEST_CASE("law: fsdp changes nothing or adds its axis to one dim") {
  for (const FsdpPolicyRow& policy : fsdp_policy_table()) {
    for_each_case([&policy](const auto& shape, const PartitionSpec& spec, const Mesh& mesh) {
      const FsdpSettings fsdp{
          .axis = 0, .min_weight_size = 1, .patterns = {}, .units = {}, .policy = &policy, .span = {}};
      Sharding sharding{.spec = spec, .segments = {}};
      if (!check_sharding(shape, sharding, mesh, UnevenPolicy::Error).empty()) return;
      const FsdpChoice choice = choose_fsdp_dim(shape, sharding, mesh, fsdp);
      if (uses_axis(spec, 0)) REQUIRE(choice.decision == FsdpDecision::AlreadyOnAxis);
      if (choice.decision != FsdpDecision::Sharded) return;
      REQUIRE(!uses_axis(spec, 0));
      sharding.spec[choice.dim].push_back(0);
      REQUIRE(check_sharding(shape, sharding, mesh, policy.uneven_policy).empty());
      if (policy.name == "largest_dim") REQUIRE(spec[choice.dim].empty());
      if (policy.name == "dim0") REQUIRE(choice.dim == 0);
    });
  }
}
