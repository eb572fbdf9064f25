#include "sharding/steps.h"

#include <algorithm>
#include <iterator>

#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

constexpr std::string_view kPartNames[] = {"gather", "reduce"};
static_assert(std::size(kPartNames) == static_cast<size_t>(StepPart::Reduce) + 1);

// A ring sends an all_reduce around twice, to sum and to distribute the result, and everything else once.
constexpr int kRingPasses[] = {1, 2, 1, 1, 0};  // by CollectiveKind
static_assert(std::size(kRingPasses) == static_cast<size_t>(CollectiveKind::LocalSlice) + 1);

// True if the output of the step is larger than its input.
bool counts_after(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather || kind == CollectiveKind::LocalSlice;
}

int64_t shard_count_of(std::span<const Placement> placements, const Mesh& mesh) {
  int64_t pieces = 1;
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (is_shard(placements[axis])) pieces *= mesh.axes[axis].size;
  }
  return pieces;
}

std::optional<size_t> dim_of(const PartitionSpec& spec, AxisId axis) {
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    if (std::ranges::find(spec[dim], axis) != spec[dim].end()) return dim;
  }
  return std::nullopt;
}

constexpr Placement kPartial{.kind = PlacementKind::Partial};

// Replaces Partial by Replicate: the gradient of a Partial value is replicated.
std::vector<Placement> reduced_layout(std::span<const Placement> layout) {
  std::vector<Placement> whole(layout.begin(), layout.end());
  for (Placement& placement : whole) {
    if (placement.kind == PlacementKind::Partial) placement = {};
  }
  return whole;
}

// The state of a parameter or its gradient between steps: `spec` is its current sharding.
struct ParamState {
  std::span<const int64_t> shape;
  const Sharding& sharding;  // of the parameter
  const Mesh& mesh;
  StepPart part{};
  PartitionSpec spec;
  std::vector<ParamStep>& steps;
};

uint64_t elements_of_first_rank(const ParamState& state, const PartitionSpec& spec) {
  return elements_of(rank0_local_shape(state.shape, state.sharding, spec, state.mesh));
}

// Appends one step and updates the spec.
void apply_collective(ParamState& state, const Collective& collective) {
  PartitionSpec next = spec_after(state.spec, collective);
  const PartitionSpec& counted = counts_after(collective.kind) ? next : state.spec;
  state.steps.push_back({.part = state.part,
                         .step = {.collective = collective,
                                  .after = plain_placements(next, state.mesh)[collective.axis],
                                  .pieces = shard_count(counted, state.mesh)},
                         .elements = elements_of_first_rank(state, counted)});
  state.spec = std::move(next);
}

Collective over(CollectiveKind kind, AxisId axis, size_t dim) {
  return {.kind = kind, .axis = axis, .dim = static_cast<int>(dim)};
}

// The shards of a minor axis are inside those of a major one. A collective over the major axis would join shards that
// are not adjacent, so the minor axes are gathered before it, from the innermost outwards, and sharded again after it,
// which communicates nothing.

// Gathers the dim along those of `axes` that shard it.
void gather_dim(ParamState& state, size_t dim, std::span<const AxisId> axes) {
  const DimAxes cuts = state.spec[dim];
  const auto is_gathered = [&](AxisId axis) { return std::ranges::find(axes, axis) != axes.end(); };
  const auto first = std::ranges::find_if(cuts, is_gathered);
  for (auto axis = cuts.end(); axis != first;) apply_collective(state, over(CollectiveKind::AllGather, *--axis, dim));
  for (auto axis = first; axis != cuts.end(); ++axis) {
    if (!is_gathered(*axis)) apply_collective(state, over(CollectiveKind::LocalSlice, *axis, dim));
  }
}

// Appends a reduce_scatter over `axis`, which becomes entry `place` of the axes of `dim`.
void scatter_dim(ParamState& state, AxisId axis, size_t dim, size_t place) {
  const DimAxes minor(state.spec[dim].begin() + static_cast<std::ptrdiff_t>(place), state.spec[dim].end());
  for (size_t i = minor.size(); i-- > 0;) apply_collective(state, over(CollectiveKind::AllGather, minor[i], dim));
  apply_collective(state, over(CollectiveKind::ReduceScatter, axis, dim));
  for (const AxisId cut : minor) apply_collective(state, over(CollectiveKind::LocalSlice, cut, dim));
}

// Returns the index at which `axis` joins the current axes of the dim, in the order of the final spec.
size_t place_among(const DimAxes& now, const DimAxes& end, AxisId axis) {
  const auto own = std::ranges::find(end, axis);
  return static_cast<size_t>(
      std::ranges::count_if(now, [&](AxisId other) { return std::find(end.begin(), own, other) != own; }));
}

// Orders the reduce_scatters as their axes shard, major first, and the all_reduces last.
std::vector<GradReduce> in_order(std::span<const GradReduce> reductions, const PartitionSpec& spec) {
  std::vector<GradReduce> order;
  for (const DimAxes& axes : spec) {
    for (const AxisId axis : axes) {
      const auto found = std::ranges::find(reductions, axis, &GradReduce::axis);
      if (found != reductions.end() && found->kind == CollectiveKind::ReduceScatter) order.push_back(*found);
    }
  }
  for (const GradReduce& reduce : reductions) {
    if (reduce.kind != CollectiveKind::ReduceScatter) order.push_back(reduce);
  }
  return order;
}

}  // namespace

PartitionSpec spec_before_scatter(PartitionSpec spec, std::span<const GradReduce> reductions) {
  for (const GradReduce& reduce : reductions) {
    if (reduce.kind == CollectiveKind::ReduceScatter) spec = without_axis(std::move(spec), reduce.axis);
  }
  return spec;
}

PartitionSpec spec_after(PartitionSpec spec, const Collective& collective) {
  if (collective.kind == CollectiveKind::AllGather) return without_axis(std::move(spec), collective.axis);
  if (collective.kind != CollectiveKind::AllReduce)
    spec[static_cast<size_t>(collective.dim)].push_back(collective.axis);
  return spec;
}

std::vector<int64_t> rank0_local_shape(std::span<const int64_t> shape, const Sharding& sharding,
                                       const PartitionSpec& spec, const Mesh& mesh) {
  Sharding now{.spec = spec, .segments = {}};
  for (const DimSegments& segments : sharding.segments) {
    if (!spec[segments.dim].empty()) now.segments.push_back(segments);
  }
  return local_shape(shape, now, mesh, std::vector<int64_t>(mesh.axes.size(), 0));
}

std::vector<Step> value_steps(std::span<const Placement> from, std::span<const Collective> collectives,
                              std::span<const Placement> target, const Mesh& mesh) {
  std::vector<Step> steps;
  std::vector<Placement> now(from.begin(), from.end());
  for (const Collective& collective : collectives) {
    Step& step = steps.emplace_back();
    step.collective = collective;
    step.after = placement_after(collective, target);
    const int64_t before = shard_count_of(now, mesh);
    now[collective.axis] = step.after;
    step.pieces = counts_after(collective.kind) ? shard_count_of(now, mesh) : before;
  }
  return steps;
}

bool communicates(std::span<const Step> steps) {
  return std::ranges::any_of(steps, [](const Step& s) { return s.collective.kind != CollectiveKind::LocalSlice; });
}

std::optional<std::vector<Step>> steps_between(std::span<const Placement> from, std::span<const Placement> to,
                                               const Mesh& mesh) {
  const auto collectives = redistribute(from, to);
  if (!collectives) return std::nullopt;
  return value_steps(from, *collectives, to, mesh);
}

GradientLayouts gradient_layouts(std::span<const Placement> from, std::span<const Placement> to, AxisId axis,
                                 GradientReduction reduction) {
  GradientLayouts gradient{.from = reduced_layout(to), .to = reduced_layout(from)};
  if (reduction != GradientReduction::None) gradient.from[axis] = kPartial;
  if (reduction == GradientReduction::Partial) gradient.to[axis] = kPartial;
  return gradient;
}

bool is_gradient_of(const GradientLayouts& gradient, std::span<const Placement> from, std::span<const Placement> to) {
  const std::vector<Placement> arrives = reduced_layout(to), leaves = reduced_layout(from);
  if (gradient.from.size() != arrives.size() || gradient.to.size() != leaves.size()) return false;
  for (size_t axis = 0; axis < arrives.size(); ++axis) {
    const bool open = gradient.from[axis] == kPartial && arrives[axis].kind == PlacementKind::Replicate;
    const bool stays = open && gradient.to[axis] == kPartial && leaves[axis].kind == PlacementKind::Replicate;
    if (!open && gradient.from[axis] != arrives[axis]) return false;
    if (!stays && gradient.to[axis] != leaves[axis]) return false;
  }
  return true;
}

std::string_view to_text(StepPart part) { return kPartNames[static_cast<size_t>(part)]; }

bool find_step_part(std::string_view text, StepPart& part) {
  const auto* found = std::ranges::find(kPartNames, text);
  if (found == std::end(kPartNames)) return false;
  part = static_cast<StepPart>(found - std::begin(kPartNames));
  return true;
}

std::vector<ParamStep> param_steps(std::span<const int64_t> shape, const Sharding& sharding,
                                   std::span<const GradReduce> reductions, std::span<const AxisId> gathered,
                                   const Mesh& mesh) {
  std::vector<ParamStep> steps;
  ParamState state{.shape = shape,
                   .sharding = sharding,
                   .mesh = mesh,
                   .part = StepPart::Gather,
                   .spec = sharding.spec,
                   .steps = steps};
  // The last dim first, so that the reductions below reverse the gathers.
  for (size_t dim = state.spec.size(); dim-- > 0;) gather_dim(state, dim, gathered);
  state.part = StepPart::Reduce;
  state.spec = spec_before_scatter(sharding.spec, reductions);
  for (const GradReduce& reduce : in_order(reductions, sharding.spec)) {
    if (reduce.kind != CollectiveKind::ReduceScatter) {
      apply_collective(state, {.kind = reduce.kind, .axis = reduce.axis});
      continue;
    }
    const size_t dim = *dim_of(sharding.spec, reduce.axis);
    scatter_dim(state, reduce.axis, dim, place_among(state.spec[dim], sharding.spec[dim], reduce.axis));
  }
  return steps;
}

std::vector<Placement> unreduced_gradient(const PartitionSpec& spec, std::span<const GradReduce> reductions,
                                          const Mesh& mesh) {
  std::vector<Placement> placements = plain_placements(spec_before_scatter(spec, reductions), mesh);
  for (const GradReduce& reduce : reductions) placements[reduce.axis] = {.kind = PlacementKind::Partial};
  return placements;
}

int ring_passes(CollectiveKind kind) { return kRingPasses[static_cast<size_t>(kind)]; }

// In a pass each of n ranks sends n - 1 of the n parts. Computed in 128 bits, because the product can exceed 64.
uint64_t ring_bytes(CollectiveKind kind, uint64_t bytes, int64_t ranks) {
  const auto passes = static_cast<unsigned __int128>(ring_passes(kind));
  const unsigned __int128 sent = passes * bytes * static_cast<uint64_t>(ranks - 1) / static_cast<uint64_t>(ranks);
  return sent > kTooManyBytes ? kTooManyBytes : static_cast<uint64_t>(sent);
}

}  // namespace tpplan
