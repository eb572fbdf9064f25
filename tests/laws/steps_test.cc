// Laws of redistribution steps, exhaustive over small cases: in a simulated execution each rank finds all inputs, and
// the last step has the declared layout.
#include "sharding/steps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "sharding/shard_slice.h"

using namespace tpplan;

namespace {

const std::vector<Mesh> kMeshes = {
    {.axes = {{"a", 2}}},
    {.axes = {{"a", 3}, {"b", 2}}},
    {.axes = {{"a", 2}, {"b", 2}, {"c", 2}}},
};

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<DimSegments> segments;
};

const std::vector<Tensor> kTensors = {{{6}, {}},    {{5}, {}},    {{12}, {{0, {4, 8}}}},
                                      {{4, 3}, {}}, {{0, 4}, {}}, {{8}, {}}};

// Calls `visit` with every spec: each mesh axis shards no dim or one, in every order of the axes that share a dim.
void for_each_spec(const Mesh& mesh, size_t ndim, const std::function<void(const PartitionSpec&)>& visit) {
  std::set<PartitionSpec> specs = {replicated_spec(ndim)};
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::set<PartitionSpec> known = specs;
    for (PartitionSpec spec : known) {
      for (DimAxes& axes : spec) {
        for (size_t place = 0; place <= axes.size(); ++place) {
          axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(place), static_cast<AxisId>(axis));
          specs.insert(spec);
          axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(place));
        }
      }
    }
  }
  for (const PartitionSpec& spec : specs) visit(spec);
}

using Elements = std::set<int64_t>;  // row-major

// Returns the elements of a rank in a layout; a Partial axis does not shard.
Elements held(const Tensor& tensor, std::vector<Placement> placements, const Mesh& mesh, int64_t rank) {
  for (Placement& placement : placements) {
    if (placement.kind == PlacementKind::Partial) placement = {};
  }
  Sharding sharding{.spec = {}, .segments = tensor.segments};
  REQUIRE(spec_of(placements, mesh, tensor.shape.size(), sharding.spec));
  Elements elements = {0};
  const auto slice = shard_slice(tensor.shape, sharding, mesh, coordinate_of(mesh, rank));
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    Elements next;
    for (const int64_t element : elements) {
      for (const Interval& run : slice[dim]) {
        for (int64_t i = run.begin; i < run.end; ++i) next.insert(element * tensor.shape[dim] + i);
      }
    }
    elements = std::move(next);
  }
  return elements;
}

std::vector<int64_t> group_of(const Mesh& mesh, AxisId axis, int64_t rank) {
  std::vector<int64_t> ranks, coordinate = coordinate_of(mesh, rank);
  for (coordinate[axis] = 0; coordinate[axis] < mesh.axes[axis].size; ++coordinate[axis])
    ranks.push_back(rank_of(mesh, coordinate));
  return ranks;
}

bool includes(const Elements& whole, const Elements& part) { return std::ranges::includes(whole, part); }

// Checks that each rank finds its inputs on the ranks along the axis: for a reduction every rank has all of them, for a
// slice the rank itself.
void check_step(const Tensor& tensor, const Mesh& mesh, const Collective& collective,
                const std::vector<Placement>& before, const std::vector<Placement>& after) {
  const Placement &from = before[collective.axis], &to = after[collective.axis];
  const bool sums = collective.kind == CollectiveKind::AllReduce || collective.kind == CollectiveKind::ReduceScatter;
  REQUIRE((from.kind == PlacementKind::Partial) == sums);
  REQUIRE(is_shard(from) == (collective.kind == CollectiveKind::AllGather));
  REQUIRE(is_shard(to) ==
          (collective.kind == CollectiveKind::ReduceScatter || collective.kind == CollectiveKind::LocalSlice));
  for (int64_t rank = 0; rank < device_count(mesh); ++rank) {
    const Elements needed = held(tensor, after, mesh, rank);
    if (collective.kind == CollectiveKind::LocalSlice) {
      REQUIRE(includes(held(tensor, before, mesh, rank), needed));
      continue;
    }
    Elements together;
    for (const int64_t other : group_of(mesh, collective.axis, rank)) {
      const Elements elements = held(tensor, before, mesh, other);
      if (sums) REQUIRE(includes(elements, needed));
      together.insert(elements.begin(), elements.end());
    }
    REQUIRE(includes(together, needed));
    if (!sums) REQUIRE(together == needed);
  }
}

// Returns the payload of a step, which is the size of the largest local shard.
uint64_t largest(const Tensor& tensor, const std::vector<Placement>& placements, const Mesh& mesh) {
  size_t most = 0;
  for (int64_t rank = 0; rank < device_count(mesh); ++rank)
    most = std::max(most, held(tensor, placements, mesh, rank).size());
  return most;
}

void carry_out(const Tensor& tensor, const Mesh& mesh, const std::vector<ParamStep>& steps, StepPart part,
               std::vector<Placement> now, const std::vector<Placement>& end) {
  for (const ParamStep& step : steps) {
    if (step.part != part) continue;
    const Collective& collective = step.step.collective;
    const std::vector<Placement> before = now;
    now[collective.axis] = step.step.after;
    check_step(tensor, mesh, collective, before, now);
    const bool after = collective.kind == CollectiveKind::AllGather || collective.kind == CollectiveKind::LocalSlice;
    REQUIRE(step.elements == largest(tensor, after ? now : before, mesh));
  }
  REQUIRE(now == end);
}

}  // namespace

TEST_CASE("law: a parameter is gathered along exactly the data axes") {
  for (const Mesh& mesh : kMeshes) {
    for (const Tensor& tensor : kTensors) {
      for_each_spec(mesh, tensor.shape.size(), [&](const PartitionSpec& spec) {
        for (size_t choice = 0; choice < size_t{1} << mesh.axes.size(); ++choice) {
          std::vector<AxisId> data;
          PartitionSpec whole = spec;
          for (size_t i = 0; i < mesh.axes.size(); ++i) {
            if ((choice >> i & 1u) == 0) continue;
            data.push_back(static_cast<AxisId>(i));
            whole = without_axis(std::move(whole), data.back());
          }
          const auto steps = param_steps(tensor.shape, {.spec = spec, .segments = tensor.segments}, {}, data, mesh);
          CHECK(steps.empty() == (whole == spec));
          carry_out(tensor, mesh, steps, StepPart::Gather, plain_placements(spec, mesh), plain_placements(whole, mesh));
        }
      });
    }
  }
}

TEST_CASE("law: a gradient is reduced over all its axes and resharded") {
  for (const Mesh& mesh : kMeshes) {
    for (const Tensor& tensor : kTensors) {
      for_each_spec(mesh, tensor.shape.size(), [&](const PartitionSpec& spec) {
        for (size_t choice = 0; choice < size_t{1} << mesh.axes.size(); ++choice) {
          std::vector<GradReduce> reductions;
          for (size_t i = 0; i < mesh.axes.size(); ++i) {
            const auto axis = static_cast<AxisId>(i);
            const CollectiveKind kind =
                uses_axis(spec, axis) ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce;
            if ((choice >> i & 1u) != 0) reductions.push_back({axis, kind});
          }
          const auto steps =
              param_steps(tensor.shape, {.spec = spec, .segments = tensor.segments}, reductions, {}, mesh);
          carry_out(tensor, mesh, steps, StepPart::Reduce, unreduced_gradient(spec, reductions, mesh),
                    plain_placements(spec, mesh));
        }
      });
    }
  }
}

TEST_CASE("law: a payload is the elements per shard of the larger side") {
  const Mesh mesh{.axes = {{"a", 2}, {"b", 3}, {"c", 2}}};
  const std::vector<int64_t> shape = {24, 36};
  const Placement choices[] = {{},
                               {.kind = PlacementKind::Shard, .dim = 0},
                               {.kind = PlacementKind::Shard, .dim = 1},
                               {.kind = PlacementKind::Partial}};
  const auto layout = [&](size_t number) {
    return std::vector<Placement>{choices[number % 4], choices[number / 4 % 4], choices[number / 16]};
  };
  const auto elements = [&](std::vector<Placement> placements) {
    for (Placement& p : placements) p = p.kind == PlacementKind::Partial ? Placement{} : p;
    Sharding sharding;
    REQUIRE(spec_of(placements, mesh, 2, sharding.spec));
    const auto local = local_shape(shape, sharding, mesh, std::vector<int64_t>(3, 0));
    return local[0] * local[1];
  };
  for (size_t from = 0; from < 64; ++from) {
    for (size_t to = 0; to < 64; ++to) {
      const auto collectives = redistribute(layout(from), layout(to));
      if (!collectives) continue;
      std::vector<Placement> now = layout(from);
      for (const Step& step : value_steps(now, *collectives, layout(to), mesh)) {
        const int64_t before = elements(now);
        now[step.collective.axis] = step.after;
        const bool slices = step.collective.kind == CollectiveKind::LocalSlice;
        REQUIRE(24 * 36 / step.pieces == (slices ? elements(now) : std::max(before, elements(now))));
      }
      REQUIRE(now == layout(to));
    }
  }
}

TEST_CASE("gradients scatter before they reduce, as in hybrid sharding") {
  const Mesh mesh{.axes = {{"dp", 2}, {"fsdp", 4}}};
  const std::vector<GradReduce> reductions = {{0, CollectiveKind::AllReduce}, {1, CollectiveKind::ReduceScatter}};
  const auto steps = param_steps(std::vector<int64_t>{8, 8}, {.spec = {{1}, {}}, .segments = {}}, reductions, {}, mesh);
  REQUIRE(steps.size() == 2);
  CHECK(to_text(steps[0].step.collective, mesh) == "reduce_scatter dim 0 over fsdp");
  CHECK(steps[0].elements == 64);
  CHECK(to_text(steps[1].step.collective, mesh) == "all_reduce over dp");
  CHECK(steps[1].elements == 16);
}

TEST_CASE("a ring sends (n - 1) / n of a payload, twice to all-reduce") {
  CHECK(ring_bytes(CollectiveKind::AllGather, 800, 4) == 600);
  CHECK(ring_bytes(CollectiveKind::ReduceScatter, 800, 4) == 600);
  CHECK(ring_bytes(CollectiveKind::AllToAll, 800, 4) == 600);
  CHECK(ring_bytes(CollectiveKind::AllReduce, 800, 4) == 1200);
  CHECK(ring_bytes(CollectiveKind::AllReduce, 800, 1) == 0);
  CHECK(ring_bytes(CollectiveKind::LocalSlice, 800, 4) == 0);
  CHECK(ring_bytes(CollectiveKind::AllReduce, 0xffffffffffffffffu, 1024) == 0xffffffffffffffffu);
}
