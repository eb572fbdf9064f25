#include "walk/dtensor/dtensor_views.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/state/causes.h"
#include "walk/state/slots.h"

namespace tpplan {
namespace {

// The dims `in` that a view converts to the dims `out`, with equal products. A dim of size 1 on one side only is a
// separate group.
struct RegroupedDims {
  std::vector<size_t> in, out;
};

std::vector<RegroupedDims> view_groups(std::span<const int64_t> from, std::span<const int64_t> to) {
  std::vector<RegroupedDims> groups;
  for (size_t i = 0, o = 0; i < from.size() || o < to.size();) {
    RegroupedDims group;
    int64_t f = 1, t = 1;
    if (i < from.size()) {
      f = from[i];
      group.in.push_back(i++);
    }
    if (o < to.size()) {
      t = to[o];
      group.out.push_back(o++);
    }
    if (f == 1 && t != 1 && !group.out.empty()) {
      --o;
      group.out.clear();
    } else if (f != 1 && t == 1 && !group.in.empty()) {
      --i;
      group.in.clear();
    } else {
      while (f != t) {
        if (i < from.size() && (o >= to.size() || t % f == 0 || t > f)) {
          f *= from[i];
          group.in.push_back(i++);
        } else if (o < to.size()) {
          t *= to[o];
          group.out.push_back(o++);
        } else {
          break;
        }
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

constexpr std::string_view kAskForRedistribute = "redistribute the DTensor first";

std::optional<ViewedPlacement> merged(const Placement& at, const RegroupedDims& group, size_t out,
                                      std::span<const int64_t> from, int64_t ranks, std::string& fault) {
  const auto dim = static_cast<size_t>(at.dim);
  Placement to = at;
  to.dim = static_cast<int>(out);
  if (at.kind == PlacementKind::StridedShard || group.in.size() == 1) return ViewedPlacement{at, to};
  if (dim != group.in.back() && from[dim] % ranks != 0) {
    fault = fmt::format("dim {} of {} elements is not divisible by {} ranks and is merged with later dims: {}", dim,
                        from[dim], ranks, kAskForRedistribute);
    return std::nullopt;
  }
  if (dim == group.in.front()) return ViewedPlacement{at, to};
  to.kind = PlacementKind::StridedShard;
  to.split_factor = 1;
  for (size_t before = group.in.front(); before < dim; ++before) to.split_factor *= from[before];
  return ViewedPlacement{at, to};
}

// Returns the placements if a view splits the group. `parts`: its dims after the view, without those of size 1.
std::optional<ViewedPlacement> split_up(const Placement& at, const RegroupedDims& group, std::span<const size_t> parts,
                                        std::span<const int64_t> from, std::span<const int64_t> to, int64_t ranks,
                                        std::string& fault) {
  const auto dim = static_cast<size_t>(at.dim);
  const auto product = [&](size_t begin, size_t end) {
    int64_t all = 1;
    for (size_t k = begin; k < end; ++k) all *= to[parts[k]];
    return all;
  };
  if (at.kind == PlacementKind::Shard) {
    if (dim != group.in.front()) {
      if (dim != group.in.back() && from[dim] % ranks != 0) {
        fault = fmt::format("dim {} of {} elements is not divisible by {} ranks: {}", dim, from[dim], ranks,
                            kAskForRedistribute);
        return std::nullopt;
      }
      // DTensor gathers the dim implicitly, but first it asks whether the first new dim of the group can be sharded.
      if (to[parts[0]] % ranks != 0) {
        fault = fmt::format(
            "dim {} of {} elements is sharded over {} ranks and regrouped, but its first new dim of {} elements is not "
            "divisible by {} ranks: {}",
            dim, from[dim], ranks, to[parts[0]], ranks, kAskForRedistribute);
        return std::nullopt;
      }
      return ViewedPlacement{{}, {}};
    }
    if (to[parts[0]] % ranks != 0) {
      fault =
          fmt::format("dim {} of {} elements, sharded over {} ranks, becomes {} x {}: {} is not divisible by {} ranks",
                      dim, from[dim], ranks, to[parts[0]], product(1, parts.size()), to[parts[0]], ranks);
      return std::nullopt;
    }
    return ViewedPlacement{at, {.kind = PlacementKind::Shard, .dim = static_cast<int>(parts[0])}};
  }
  for (size_t k = 0; k < parts.size(); ++k) {
    if (product(0, k) != at.split_factor) continue;
    if (to[parts[k]] % ranks != 0 && k + 1 < parts.size()) break;
    return ViewedPlacement{at, {.kind = PlacementKind::Shard, .dim = static_cast<int>(parts[k])}};
  }
  const int64_t shards = ranks * at.split_factor;
  for (size_t k = 0; k < parts.size() && from[dim] % shards == 0; ++k) {
    const int64_t inner = product(k + 1, parts.size()), local_size = from[dim] / shards;
    if (local_size < inner || local_size % inner != 0) continue;
    Placement viewed = at;
    viewed.dim = static_cast<int>(parts[k]);
    return ViewedPlacement{at, viewed};
  }
  fault = fmt::format("its dim {} is a StridedShard with split factor {}, which no new dim has: {}", dim,
                      at.split_factor, kAskForRedistribute);
  return std::nullopt;
}

}  // namespace

std::optional<ViewedPlacement> view_placement(const Placement& at, std::span<const int64_t> from,
                                              std::span<const int64_t> to, int64_t ranks, std::string& fault) {
  if (!is_shard(at)) return ViewedPlacement{at, at};
  for (const RegroupedDims& group : view_groups(from, to)) {
    if (std::find(group.in.begin(), group.in.end(), static_cast<size_t>(at.dim)) == group.in.end()) continue;
    std::vector<size_t> parts;
    for (const size_t out : group.out) {
      if (group.out.size() == 1 || to[out] != 1) parts.push_back(out);
    }
    if (parts.size() == 1) return merged(at, group, parts[0], from, ranks, fault);
    if (parts.size() > 1) return split_up(at, group, parts, from, to, ranks, fault);
  }
  fault = fmt::format("the view removes dim {}, which is sharded: {}", at.dim, kAskForRedistribute);
  return std::nullopt;
}

void run_view(DtensorRun& run) {
  const auto to = declared_out_shape(run);
  const auto from = declared_shape(run, 0);
  DeclaredPlacements in = declared_of(run, 0);
  run.declared = in;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    std::string fault;
    const auto one =
        view_placement(in[axis], from, to, static_cast<int64_t>(run.walk.memory.table.maps.axes[axis]), fault);
    if (!one)
      return crash_at(run.walk, Code::GlobalSizeInView,
                      fmt::format("{} of a DTensor {}: {}", run.name,
                                  to_text(std::span<const Placement>(declared_of(run, 0))), fault),
                      run.rule, kNoRule, std::string(run.name));
    in[axis] = one->in;
    run.declared[axis] = one->out;
  }
  redistribute_operand(run, 0, in);
  if (run.walk.out.crash != kNoId) return;
  compute_result(run);
  // DTensor computes the local sizes of the view from the declared ones. If the actual sizes differ, the view does not
  // fail but its elements are wrong.
  if (run.exact || run.result.crash.empty()) return;
  const std::string reason = std::move(run.result.crash);
  run.result.crash.clear();
  mark_wrong(run.result, Code::ShardsMismatch,
             fmt::format("{}; torch uses the declared sizes, so the elements are wrong", reason));
}

}  // namespace tpplan
