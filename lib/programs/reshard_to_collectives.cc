#include "programs/reshard_to_collectives.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace tpplan::programs {
namespace {

// The state of a reshard: `in` and `out` are what the current and the wanted sharding have beyond their common prefix.
// Both are empty at the end.
struct Reshard {
  MeshAxes mesh;
  std::span<const int64_t> shape;
  std::vector<AxisParts> in, out, current;
  std::vector<int64_t> capacity;
  std::vector<ReshardStep> steps;
};

// Where an axis stands in the wanted sharding.
struct Place {
  size_t dim = 0, index = 0;
};

std::optional<Place> find_place(const std::vector<AxisParts>& dims, const AxisPart& axis) {
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const auto found = std::ranges::find(dims[dim], axis);
    if (found != dims[dim].end()) return Place{dim, static_cast<size_t>(found - dims[dim].begin())};
  }
  return std::nullopt;
}

bool has_axis(const std::vector<AxisParts>& dims, const AxisPart& axis) { return find_place(dims, axis).has_value(); }

// ---- alignment ----

AxisParts sorted_parts(const Reshard& r, const std::vector<AxisParts>& dims) {
  AxisParts parts;
  for (const AxisParts& dim : dims) parts.insert(parts.end(), dim.begin(), dim.end());
  std::ranges::sort(parts,
                    [&r](const AxisPart& a, const AxisPart& b) { return is_before(r.mesh.names, r.mesh.sizes, a, b); });
  return parts;
}

// Splits the axes of `dims` so that those that overlap with axes of `others` are equal to them or contained in them.
void align_axes(std::vector<AxisParts>& dims, const AxisParts& others) {
  for (AxisParts& dim : dims) {
    AxisParts split;
    for (AxisPart axis : dim) {
      for (const AxisPart& other : others) {
        if (!overlaps(axis, other) || contains(other, axis)) continue;
        const int64_t begin = std::max(axis.before, other.before), end = std::min(part_end(axis), part_end(other));
        if (begin % axis.before != 0 || end % begin != 0 || part_end(axis) % end != 0) continue;
        if (begin > axis.before) split.push_back({axis.axis, axis.before, begin / axis.before});
        if (end == part_end(axis)) {
          axis = {axis.axis, begin, end / begin};
          break;
        }
        split.push_back({axis.axis, begin, end / begin});
        axis = {axis.axis, end, part_end(axis) / end};
      }
      split.push_back(axis);
    }
    dim = std::move(split);
  }
}

// ---- capacity ----

// The part of an axis that fits into a capacity, and the rest.
struct Fitting {
  std::optional<AxisPart> within, rest;
};

// Divides `capacity` by what fits.
Fitting fit_axis(const AxisPart& axis, int64_t& capacity) {
  if (capacity <= 1 || (axis.size % capacity != 0 && capacity % axis.size != 0)) return {};
  if (capacity >= axis.size) {
    capacity /= axis.size;
    return {axis, std::nullopt};
  }
  const AxisPart within{axis.axis, axis.before, capacity};
  const AxisPart rest{axis.axis, part_end(within), axis.size / capacity};
  capacity = 1;
  return {within, rest};
}

// Appends or prepends axes of `available` to the dims that have capacity. Calls `use(axis, dim)` for each.
template <typename Available, typename Use>
void distribute(Reshard& r, bool to_front, const Available& available, const Use& use) {
  AxisParts split;
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    AxisParts& list = available(dim);
    size_t place = 0;  // in front of the axes that were there
    for (size_t i = 0; i < list.size() && r.capacity[dim] > 1;) {
      const Fitting fitting = fit_axis(list[i], r.capacity[dim]);
      if (!fitting.within) {
        ++i;
        continue;
      }
      list.erase(list.begin() + static_cast<ptrdiff_t>(i));
      r.in[dim].insert(to_front ? r.in[dim].begin() + static_cast<ptrdiff_t>(place++) : r.in[dim].end(),
                       *fitting.within);
      use(*fitting.within, dim);
      if (fitting.rest) {
        split.push_back(*fitting.within);
        list.insert(list.begin(), *fitting.rest);
        ++i;
      }
    }
  }
  std::ranges::sort(split,
                    [&r](const AxisPart& a, const AxisPart& b) { return is_before(r.mesh.names, r.mesh.sizes, a, b); });
  if (!split.empty()) align_axes(r.out, split);
}

// Removes the axes from index `first` of `in[dim]` from the back of the current sharding of that dim.
void pop_current(Reshard& r, size_t dim, size_t first) {
  AxisParts& current = r.current[dim];
  for (size_t i = r.in[dim].size(); i > first && !current.empty(); --i) {
    const std::optional<AxisPart> prefix = prefix_without(current.back(), r.in[dim][i - 1]);
    if (prefix)
      current.back() = *prefix;
    else
      current.pop_back();
  }
}

void add_step(Reshard& r, ReshardKind kind, AxisParts axes, std::vector<AxisParts> before) {
  r.steps.push_back({kind, std::move(axes), std::move(before), r.current});
}

// ---- all-slice ----

// Slices a dim that has axes to move elsewhere: axes that follow them there are sliced here and move along, which saves
// a permute.
bool slice_for_all_to_all(Reshard& r, size_t source) {
  AxisParts& in = r.in[source];
  if (in.empty() || !r.out[source].empty()) return false;
  const std::optional<Place> place = find_place(r.out, in.back());
  if (!place || !r.in[place->dim].empty()) return false;
  const AxisParts& wanted = r.out[place->dim];
  const size_t start = place->index + 1;
  if (start == wanted.size() || has_axis(r.in, wanted[start])) return false;
  size_t common = 0;
  int64_t common_size = 1;
  while (common < in.size() && common < start && in[in.size() - 1 - common] == wanted[start - 1 - common])
    common_size *= in[in.size() - 1 - common++].size;
  for (size_t i = 0; i + common < in.size(); ++i) {
    const std::optional<Place> other = find_place(r.out, in[i]);
    if (other && other->dim == place->dim) return false;  // an axis out of order
  }
  size_t end = start;
  int64_t added = 1;
  while (end < wanted.size() && !has_axis(r.in, wanted[end])) added *= wanted[end++].size;
  if (r.shape[source] % (shard_count(r.current[source]) * added) != 0) return false;
  r.capacity[place->dim] /= common_size * added;
  for (size_t i = start; i < end; ++i) {
    in.push_back(wanted[i]);
    append_part(r.current[source], wanted[i]);
  }
  return true;
}

// Shards dims further that are less sharded than wanted.
void slice(Reshard& r) {
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    const int64_t in = shard_count(r.in[dim]), out = shard_count(r.out[dim]);
    r.capacity[dim] = out / std::gcd(in, out);
  }
  for (size_t dim = 0; dim < r.in.size(); ++dim) (void)slice_for_all_to_all(r, dim);
  AxisParts available;
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    AxisParts& out = r.out[dim];
    for (size_t i = 0; i < out.size();) {
      const AxisPart axis = out[i];
      if (has_axis(r.in, axis)) {
        ++i;
        continue;
      }
      const Fitting fitting = fit_axis(axis, r.capacity[dim]);
      if (!fitting.within) {
        available.push_back(axis);
        ++i;
        continue;
      }
      append_part(r.current[dim], *fitting.within);
      if (r.in[dim].empty() && i == 0) {
        out.erase(out.begin());
      } else {
        r.in[dim].push_back(*fitting.within);
        out[i++] = *fitting.within;
      }
      if (fitting.rest) {
        out.insert(out.begin() + static_cast<ptrdiff_t>(i++), *fitting.rest);
        available.push_back(*fitting.rest);
      }
    }
  }
  distribute(
      r, false, [&available](size_t) -> AxisParts& { return available; },
      [&r](const AxisPart& axis, size_t dim) { append_part(r.current[dim], axis); });
}

// ---- collective-permute ----

bool are_divisible(const AxisPart& a, const AxisPart& b) { return a.size % b.size == 0 || b.size % a.size == 0; }

// True if exchanging axes between ranks brings the sharding closer to the wanted one.
bool should_permute(const Reshard& r) {
  std::optional<AxisPart> free_in, free_out;
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    const AxisParts &in = r.in[dim], &out = r.out[dim];
    if (!in.empty() && !out.empty() && are_divisible(in.front(), out.front())) return true;
    for (const AxisPart& axis : out) {
      if (!has_axis(r.in, axis)) free_out = axis;
    }
    std::optional<size_t> last_dim;
    size_t last_index = 0;
    std::vector<bool> seen(r.in.size());
    for (const AxisPart& axis : in) {
      const std::optional<Place> place = find_place(r.out, axis);
      if (place) {
        if ((place->dim == dim || seen[place->dim]) && (last_dim != place->dim || place->index != last_index + 1))
          return true;
        seen[place->dim] = true;
        last_index = place->index;
      } else if (last_dim && out.empty()) {
        return true;
      } else {
        free_in = axis;
      }
      last_dim = place ? std::optional<size_t>(place->dim) : std::nullopt;
    }
  }
  return free_out && free_in && are_divisible(*free_out, *free_in);
}

// Replaces axes of the current sharding by as many wanted ones, then by other axes that stay.
void permute(Reshard& r) {
  const std::vector<AxisParts> before = r.current, wanted = r.out;
  AxisParts free_out;
  std::vector<AxisParts> free_in(r.in.size());
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    AxisParts &in = r.in[dim], &out = r.out[dim];
    r.capacity[dim] = shard_count(in);
    int64_t used = r.capacity[dim];
    pop_current(r, dim, 0);
    while (r.capacity[dim] > 1 && !out.empty()) {
      const Fitting fitting = fit_axis(out.front(), r.capacity[dim]);
      if (!fitting.within) break;
      append_part(r.current[dim], *fitting.within);
      out.erase(out.begin());
      if (fitting.rest) out.insert(out.begin(), *fitting.rest);
    }
    free_out.insert(free_out.end(), out.begin(), out.end());
    used /= r.capacity[dim];
    std::erase_if(in, [&wanted](const AxisPart& axis) { return has_axis(wanted, axis); });
    while (used > 1 && !in.empty()) {
      const Fitting fitting = fit_axis(in.front(), used);
      if (!fitting.within) break;
      in.erase(in.begin());
      free_in[dim].push_back(*fitting.within);
      if (fitting.rest) in.insert(in.begin(), *fitting.rest);
    }
    free_in[dim].insert(free_in[dim].begin(), in.begin(), in.end());
    in.clear();
  }
  const auto ignore = [](const AxisPart&, size_t) {};
  distribute(
      r, false, [&free_out](size_t) -> AxisParts& { return free_out; }, ignore);
  distribute(
      r, true, [&free_in](size_t dim) -> AxisParts& { return free_in[dim]; }, ignore);
  AxisParts rest;
  for (const AxisParts& dim : free_in) rest.insert(rest.end(), dim.begin(), dim.end());
  distribute(
      r, true, [&rest](size_t) -> AxisParts& { return rest; }, ignore);
  AxisParts axes;
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    for (const AxisPart& axis : r.in[dim]) append_part(r.current[dim], axis);
  }
  // The axes whose coordinates decide who sends to whom: all of the dims that change.
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    if (before[dim] == r.current[dim]) continue;
    for (const std::vector<AxisParts>* dims : {&before, &std::as_const(r.current)}) {
      for (const AxisPart& axis : (*dims)[dim]) {
        if (std::ranges::none_of(axes, [&axis](const AxisPart& part) { return overlaps(part, axis); }))
          axes.push_back(axis);
      }
    }
  }
  add_step(r, ReshardKind::CollectivePermute, std::move(axes), before);
}

// ---- all-to-all ----

// Moves the last axes of a dim to the one dim where they are wanted. If `in_place`, only as the next axes there.
bool move_axes(Reshard& r, size_t source, bool in_place) {
  AxisParts& in = r.in[source];
  std::optional<size_t> target;
  size_t first = in.size();
  while (first > 0) {
    const std::optional<Place> place = find_place(r.out, in[first - 1]);
    if (!place || place->dim == source || (target && place->dim != *target)) break;
    target = place->dim;
    --first;
  }
  if (!target) return false;
  AxisParts& out = r.out[*target];
  const auto moved = std::span(in).subspan(first);
  if (in_place && (moved.size() > out.size() || !std::equal(moved.begin(), moved.end(), out.begin()))) return false;
  const std::vector<AxisParts> before = r.current;
  pop_current(r, source, first);
  AxisParts axes;
  for (const AxisPart& axis : moved) {
    append_part(axes, axis);
    append_part(r.current[*target], axis);
    if (r.in[*target].empty() && !out.empty() && out.front() == axis)
      out.erase(out.begin());
    else
      r.in[*target].push_back(axis);
  }
  in.resize(first);
  add_step(r, ReshardKind::AllToAll, std::move(axes), before);
  return true;
}

void move_all(Reshard& r, bool in_place) {
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    while (move_axes(r, dim, in_place)) {
    }
  }
}

// ---- all-gather ----

void gather(Reshard& r) {
  const std::vector<AxisParts> before = r.current;
  AxisParts axes;
  for (size_t dim = 0; dim < r.in.size(); ++dim) {
    size_t first = r.in[dim].size();
    while (first > 0 && !has_axis(r.out, r.in[dim][first - 1])) --first;
    pop_current(r, dim, first);
    AxisParts gathered;
    for (size_t i = first; i < r.in[dim].size(); ++i) append_part(gathered, r.in[dim][i]);
    axes.insert(axes.end(), gathered.begin(), gathered.end());
    r.in[dim].resize(first);
  }
  if (!axes.empty()) add_step(r, ReshardKind::AllGather, std::move(axes), before);
}

bool is_done(const Reshard& r) {
  return std::ranges::all_of(r.in, &AxisParts::empty) && std::ranges::all_of(r.out, &AxisParts::empty);
}

}  // namespace

std::vector<ReshardStep> reshard_steps(MeshAxes mesh, std::span<const int64_t> shape,
                                       const std::vector<AxisParts>& from, const std::vector<AxisParts>& to) {
  Reshard r{.mesh = mesh, .shape = shape, .in = from, .out = to, .current = from};
  r.capacity.resize(from.size(), 1);
  const AxisParts in_axes = sorted_parts(r, from), out_axes = sorted_parts(r, to);
  align_axes(r.in, out_axes);
  align_axes(r.out, in_axes);
  for (size_t dim = 0; dim < from.size(); ++dim) {
    AxisParts &in = r.in[dim], &out = r.out[dim];
    size_t common = 0;
    while (common < in.size() && common < out.size() && in[common] == out[common]) ++common;
    in.erase(in.begin(), in.begin() + static_cast<ptrdiff_t>(common));
    out.erase(out.begin(), out.begin() + static_cast<ptrdiff_t>(common));
  }
  // The second pass is for axes whose sizes do not divide each other.
  for (int pass = 0; pass < 2 && !is_done(r); ++pass) {
    slice(r);
    if (should_permute(r)) permute(r);
    move_all(r, true);
    move_all(r, false);
    gather(r);
  }
  return std::move(r.steps);
}

}  // namespace tpplan::programs
