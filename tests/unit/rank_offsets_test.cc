// Errors in shard arithmetic are detected by the offsets, or by the placements of single ranks.
#include "sharding/rank_offsets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "sharding/placed_intervals.h"

using namespace tpplan;

namespace {

using Slices = std::vector<std::vector<Interval>>;
using Shape = std::span<const int64_t>;

std::vector<int64_t> reversed(const Mesh& mesh, std::span<const int64_t> coordinate) {
  std::vector<int64_t> other;
  for (size_t i = 0; i < coordinate.size(); ++i) other.push_back(mesh.axes[i].size - 1 - coordinate[i]);
  return other;
}

Slices pieces_reversed(Shape shape, const Sharding& sharding, const Mesh& mesh, std::span<const int64_t> at) {
  return shard_slice(shape, sharding, mesh, reversed(mesh, at));
}

Slices axes_swapped(Shape shape, const Sharding& sharding, const Mesh& mesh, std::span<const int64_t> at) {
  Sharding other = sharding;
  for (DimAxes& axes : other.spec) std::ranges::reverse(axes);
  return shard_slice(shape, other, mesh, at);
}

Slices column_major_mesh(Shape shape, const Sharding& sharding, const Mesh& mesh, std::span<const int64_t> at) {
  int64_t rank = rank_of(mesh, at);
  std::vector<int64_t> other;
  for (const MeshAxis& axis : mesh.axes) {
    other.push_back(rank % axis.size);
    rank /= axis.size;
  }
  return shard_slice(shape, sharding, mesh, other);
}

Slices segments_ignored(Shape shape, const Sharding& sharding, const Mesh& mesh, std::span<const int64_t> at) {
  return shard_slice(shape, {.spec = sharding.spec, .segments = {}}, mesh, at);
}

Slices runs_reordered(Shape shape, const Sharding& sharding, const Mesh& mesh, std::span<const int64_t> at) {
  Slices slices = shard_slice(shape, sharding, mesh, at);
  for (auto& runs : slices) std::ranges::reverse(runs);
  return slices;
}

Slices shifted_by_one(Shape shape, const Sharding& sharding, const Mesh& mesh, std::span<const int64_t> at) {
  std::vector<int64_t> other(at.begin(), at.end());
  for (size_t i = 0; i < other.size(); ++i) other[i] = (other[i] + 1) % mesh.axes[i].size;
  return shard_slice(shape, sharding, mesh, other);
}

Slices first_axis_forgotten(Shape shape, const Sharding& sharding, const Mesh& mesh, std::span<const int64_t> at) {
  std::vector<int64_t> other(at.begin(), at.end());
  other[0] = 0;
  return shard_slice(shape, sharding, mesh, other);
}

Slices interleaved(Shape shape, const Sharding& sharding, const Mesh& mesh, std::span<const int64_t> at) {
  Slices slices = shard_slice(shape, sharding, mesh, at);
  if (slices[0].size() == 1 && slices[0][0].begin == 0 && length(slices[0][0]) > 1)
    slices[0] = {{0, 1}, {2, length(slices[0][0]) + 1}};
  return slices;
}

struct Case {
  std::vector<int64_t> shape;
  Sharding sharding;
};

const Mesh kMesh{{{"fsdp", 2}, {"tp", 4}}};
const Case kCases[] = {
    {{16, 6}, {{{1}, {}}, {}}},                    // tp
    {{16, 6}, {{{0, 1}, {}}, {}}},                 // fsdp, then tp within its shards
    {{16, 6}, {{{1, 0}, {}}, {}}},                 // tp, then fsdp: a StridedShard
    {{16, 8}, {{{0}, {1}}, {}}},                   // two dims
    {{24, 6}, {{{1}, {}}, {{0, {16, 4, 4}}}}},     // q|k|v
    {{16, 6}, {{{1}, {}}, {{0, {8, 8}}}}},         // gate|up
    {{32, 6}, {{{1, 0}, {}}, {{0, {16, 8, 8}}}}},  // q|k|v under fsdp
};

std::string noticed(const Case& c, SliceFunction slice) {
  const auto offsets = offsets_of(c.shape, c.sharding, kMesh, slice);
  if (!offsets) return "compile";
  if (*offsets != *offsets_of(c.shape, c.sharding, kMesh)) return "reading";
  for (const int64_t rank : sample_ranks(kMesh)) {
    if (!placement_mismatch(c.shape, c.sharding, kMesh, rank, slice).empty()) return "reading";
  }
  for (int64_t rank = 0; rank < device_count(kMesh); ++rank) {
    if (!placement_mismatch(c.shape, c.sharding, kMesh, rank, slice).empty()) return "verify";
  }
  return "";
}

// True if the mutant shards this case exactly like shard_slice, so there is no error to detect.
bool is_same(const Case& c, SliceFunction slice) {
  for (int64_t rank = 0; rank < device_count(kMesh); ++rank) {
    const auto at = coordinate_of(kMesh, rank);
    if (slice(c.shape, c.sharding, kMesh, at) != shard_slice(c.shape, c.sharding, kMesh, at)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("every wrong shard arithmetic is detected on every mesh") {
  const std::pair<const char*, SliceFunction> mutants[] = {{"pieces reversed", pieces_reversed},
                                                           {"axes swapped", axes_swapped},
                                                           {"column-major mesh", column_major_mesh},
                                                           {"segments ignored", segments_ignored},
                                                           {"runs reordered", runs_reordered},
                                                           {"shifted by one", shifted_by_one},
                                                           {"first axis forgotten", first_axis_forgotten},
                                                           {"interleaved", interleaved}};
  for (const auto& [name, slice] : mutants) {
    size_t alive = 0;
    for (const Case& c : kCases) {
      if (is_same(c, slice)) continue;
      ++alive;
      CHECK_MESSAGE(!noticed(c, slice).empty(), name << " of case " << &c - kCases);
    }
    CHECK_MESSAGE(alive > 0, name);
  }
}

TEST_CASE("offsets and placements match shard_slice, uneven too") {
  const Mesh meshes[] = {kMesh, {{{"a", 3}, {"b", 2}}}, {{{"a", 2}, {"b", 1}, {"c", 3}}}, {{{"a", 5}}}};
  const std::vector<DimAxes> orders[] = {
      {{0, 1}, {1, 0}, {0}, {1}}, {{0, 1}, {1, 0}, {1}}, {{2, 0}, {0, 1, 2}, {1}, {2}}, {{0}}};
  for (size_t m = 0; m < std::size(meshes); ++m) {
    const Mesh& mesh = meshes[m];
    for (const DimAxes& axes : orders[m]) {
      for (int64_t size = 0; size <= 40; ++size) {
        for (const std::vector<int64_t>& segments :
             {std::vector<int64_t>{}, {size / 2, size - size / 2}, {size / 3, 0, size - size / 3}}) {
          Sharding sharding{.spec = {axes, {}}, .segments = {}};
          if (!segments.empty()) sharding.segments.push_back({0, segments});
          const std::vector<int64_t> shape{size, 3};
          const auto offsets = offsets_of(shape, sharding, mesh);
          REQUIRE(offsets);
          for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
            CHECK(placement_mismatch(shape, sharding, mesh, rank) == "");
            auto expected = shard_slice(shape, sharding, mesh, coordinate_of(mesh, rank))[0];
            auto found = rank_intervals((*offsets)[0], rank);
            REQUIRE(found.size() == expected.size());
            for (size_t i = 0; i < found.size(); ++i) {
              CHECK(length(found[i]) == length(expected[i]));
              if (length(found[i]) > 0) CHECK(found[i] == expected[i]);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a large mesh has offsets of few numbers") {
  const Mesh mesh{{{"dp", 8}, {"fsdp", 128}, {"tp", 8}}};
  const auto offsets = offsets_of(std::vector<int64_t>{131072, 8}, {.spec = {{2, 1}, {}}, .segments = {}}, mesh);
  REQUIRE(offsets);
  CHECK((*offsets)[0].ranks == std::vector<RankLevel>{{1, 8, 128}, {8, 128, 1}});
  CHECK((*offsets)[0].runs == std::vector<std::vector<EqualShards>>{{{1024, 128}}});
}
