#include "sharding/placement.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "sharding/shard_slice.h"

namespace tpplan {
namespace {

// The reductions that a plan can write, and those that occur only inside of DTensor.
constexpr std::array<std::string_view, 4> kReduceNames = {"sum", "avg", "max", "min"};
constexpr std::array<std::string_view, 2> kExtraReduceNames = {"norm", "mask"};
static_assert(std::size(kReduceNames) == static_cast<size_t>(ReduceOp::Norm));
static_assert(std::size(kReduceNames) + std::size(kExtraReduceNames) == static_cast<size_t>(ReduceOp::Mask) + 1);

std::string_view reduce_name(ReduceOp op) {
  const auto index = static_cast<size_t>(op);
  return index < kReduceNames.size() ? kReduceNames[index] : kExtraReduceNames[index - kReduceNames.size()];
}

bool parse_int(std::string_view text, int64_t& value) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

// True for segments as torch.chunk splits a dim: equal but for the last ones. (A StridedShard stores only the number of
// segments.)
bool are_chunks(std::span<const int64_t> segments) {
  const auto count = static_cast<int64_t>(segments.size());
  const Interval whole{0, std::accumulate(segments.begin(), segments.end(), int64_t{0})};
  for (int64_t i = 0; i < count; ++i) {
    if (length(chunk(whole, count, i)) != segments[static_cast<size_t>(i)]) return false;
  }
  return true;
}

// Finds the text between "name(" and ")".
bool arguments_of(std::string_view text, std::string_view name, std::string_view& arguments) {
  if (!text.starts_with(name) || !text.ends_with(')') || text.size() < name.size() + 2 || text[name.size()] != '(')
    return false;
  arguments = text.substr(name.size() + 1, text.size() - name.size() - 2);
  return true;
}

}  // namespace

std::string to_text(const Placement& placement) {
  switch (placement.kind) {
    case PlacementKind::Replicate:
      return "Replicate";
    case PlacementKind::Shard:
      return "Shard(" + std::to_string(placement.dim) + ")";
    case PlacementKind::StridedShard:
      return "StridedShard(" + std::to_string(placement.dim) + ", " + std::to_string(placement.split_factor) + ")";
    case PlacementKind::Partial:
      return "Partial(" + std::string(reduce_name(placement.op)) + ")";
  }
  return "";
}

std::string to_text(std::span<const Placement> placements) {
  std::string text = "[";
  for (const Placement& placement : placements) text.append(text.size() == 1 ? "" : ", ").append(to_text(placement));
  return text + "]";
}

bool parse_placement(std::string_view text, Placement& placement) {
  placement = {};
  std::string_view arguments;
  int64_t dim = 0;
  if (text == "Replicate" || text == "Replicate()") return true;
  if (text == "Partial" || text == "Partial()") {
    placement.kind = PlacementKind::Partial;
    return true;
  }
  if (arguments_of(text, "Partial", arguments)) {
    const auto name = std::find(kReduceNames.begin(), kReduceNames.end(), arguments);
    placement.kind = PlacementKind::Partial;
    placement.op = static_cast<ReduceOp>(name - kReduceNames.begin());
    return name != kReduceNames.end();
  }
  if (arguments_of(text, "Shard", arguments)) {
    placement.kind = PlacementKind::Shard;
    if (!parse_int(arguments, dim) || dim < -64 || dim > 63) return false;
    placement.dim = static_cast<int>(dim);
    return true;
  }
  if (arguments_of(text, "StridedShard", arguments)) {
    const size_t comma = arguments.find(',');
    placement.kind = PlacementKind::StridedShard;
    if (comma == std::string_view::npos || !parse_int(arguments.substr(0, comma), dim) || dim < 0 || dim > 63)
      return false;
    placement.dim = static_cast<int>(dim);
    return parse_int(arguments.substr(comma + 1), placement.split_factor) && placement.split_factor > 0;
  }
  return false;
}

std::optional<std::vector<Placement>> placements_of(const Sharding& sharding, const Mesh& mesh) {
  std::vector<Placement> placements(mesh.axes.size());
  for (size_t dim = 0; dim < sharding.spec.size(); ++dim) {
    const DimAxes& axes = sharding.spec[dim];
    const std::span<const int64_t> segments = segments_of(sharding, dim);
    if (!axes.empty() && !are_chunks(segments)) return std::nullopt;
    for (size_t i = 0; i < axes.size(); ++i) {
      int64_t split_factor = 1;
      for (size_t k = 0; k < i; ++k) {
        if (axes[k] > axes[i]) split_factor *= mesh.axes[axes[k]].size;
      }
      if (split_factor == 1 && segments.size() > 1) split_factor = static_cast<int64_t>(segments.size());
      const PlacementKind kind = split_factor > 1 ? PlacementKind::StridedShard : PlacementKind::Shard;
      placements[axes[i]] = {.kind = kind, .dim = static_cast<int>(dim), .split_factor = split_factor};
    }
  }
  return placements;
}

std::vector<Placement> plain_placements(const PartitionSpec& spec, const Mesh& mesh) {
  return *placements_of({.spec = spec, .segments = {}}, mesh);
}

bool spec_of(std::span<const Placement> placements, const Mesh& mesh, size_t ndim, PartitionSpec& spec) {
  spec = replicated_spec(ndim);
  // Right to left: the axes to the right are already in order, and a strided axis is inserted after as many of them as
  // multiply to its split factor.
  for (size_t i = placements.size(); i-- > 0;) {
    const Placement& placement = placements[i];
    if (placement.kind == PlacementKind::Replicate) continue;
    const int dim = placement.dim < 0 ? placement.dim + static_cast<int>(ndim) : placement.dim;
    if (placement.kind == PlacementKind::Partial || dim < 0 || static_cast<size_t>(dim) >= ndim) return false;
    DimAxes& axes = spec[static_cast<size_t>(dim)];
    const int64_t wanted = placement.kind == PlacementKind::StridedShard ? placement.split_factor : 1;
    size_t behind = 0;
    int64_t product = 1;
    while (product < wanted && behind < axes.size()) product *= mesh.axes[axes[behind++]].size;
    if (product != wanted) return false;
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(behind), static_cast<AxisId>(i));
  }
  return true;
}

}  // namespace tpplan
