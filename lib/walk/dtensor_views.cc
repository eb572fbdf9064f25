#include "walk/dtensor_views.h"

#include <algorithm>

namespace tpplan {
namespace {

// Dims of a view that become each other: those between these, whose products agree.
struct RegroupedDims {
  size_t in_begin = 0, in_end = 0;
  size_t out_begin = 0, out_end = 0;
};

// The group that dim `cut` of `from` is in.
std::optional<RegroupedDims> group_of(size_t cut, std::span<const int64_t> from, std::span<const int64_t> to) {
  for (size_t i = 0, o = 0; i < from.size() && o < to.size();) {
    RegroupedDims group{.in_begin = i, .out_begin = o};
    int64_t a = from[i++], b = to[o++];
    while (a != b) {
      if (a < b && i < from.size())
        a *= from[i++];
      else if (b < a && o < to.size())
        b *= to[o++];
      else
        return std::nullopt;
    }
    group.in_end = i;
    group.out_end = o;
    if (cut >= group.in_begin && cut < group.in_end) return group;
  }
  return std::nullopt;
}

std::optional<Placement> viewed_axis(const Placement& claim, std::span<const int64_t> from, std::span<const int64_t> to,
                                     int64_t ranks) {
  if (!is_shard(claim)) return claim;
  const auto cut = static_cast<size_t>(claim.dim);
  const auto group = group_of(cut, from, to);
  if (!group) return std::nullopt;
  int64_t before = claim.kind == PlacementKind::StridedShard ? claim.split_factor : 1;
  for (size_t dim = group->in_begin; dim < cut; ++dim) before *= from[dim];
  // Over what stands before the cut dim comes the dim that takes the cut.
  size_t out = group->out_begin;
  int64_t passed = 1;
  while (out + 1 < group->out_end && passed < before && passed * to[out] <= before && before % (passed * to[out]) == 0)
    passed *= to[out++];
  while (out + 1 < group->out_end && to[out] == 1) ++out;
  if (before % passed != 0) return std::nullopt;
  const int64_t factor = before / passed;
  const bool splits = group->out_end - group->out_begin > 1 && out + 1 < group->out_end;
  if (splits && to[out] / factor % ranks != 0) return std::nullopt;
  return Placement{.kind = factor > 1 ? PlacementKind::StridedShard : PlacementKind::Shard,
                   .dim = static_cast<int>(out),
                   .split_factor = factor};
}

constexpr std::string_view kViews[] = {"view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"};

}  // namespace

bool is_view(std::string_view op) { return std::find(std::begin(kViews), std::end(kViews), op) != std::end(kViews); }

std::optional<Claim> viewed(const Walk& walk, const Claim& claim, std::span<const int64_t> from,
                            std::span<const int64_t> to) {
  Claim out;
  for (size_t axis = 0; axis < claim.size(); ++axis) {
    const auto one = viewed_axis(claim[axis], from, to, static_cast<int64_t>(walk.table.maps.axes[axis]));
    if (!one) return std::nullopt;
    out.push_back(*one);
  }
  return out;
}

}  // namespace tpplan
