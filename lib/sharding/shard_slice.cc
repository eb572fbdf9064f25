#include "sharding/shard_slice.h"

#include <algorithm>

namespace tpplan {
namespace {

// Major axis first: each axis splits the result of the ones before. For uneven sizes a split by the product differs.
Interval cut(Interval run, const DimAxes& axes, const Mesh& mesh, std::span<const int64_t> coordinate) {
  for (const AxisId axis : axes) run = chunk(run, mesh.axes[axis].size, coordinate[axis]);
  return run;
}

// Calls `visit` with each interval that is sharded separately: the full dim, or its segments.
template <typename Visit>
void for_each_segment(int64_t size, std::span<const int64_t> segments, Visit visit) {
  if (segments.empty()) return visit(Interval{0, size});
  int64_t begin = 0;
  for (const int64_t segment : segments) {
    visit(Interval{begin, begin + segment});
    begin += segment;
  }
}

}  // namespace

// Splits like torch.chunk: chunks of ceil(size / count), the last ones shorter or empty.
Interval chunk(Interval global, int64_t count, int64_t index) {
  const int64_t size = length(global), piece = size / count + (size % count != 0);
  // index * piece can exceed 2^63 only if it also exceeds the end.
  const int64_t begin =
      piece != 0 && index > size / piece ? global.end : std::min(global.begin + index * piece, global.end);
  return {begin, begin + std::min(piece, global.end - begin)};
}

std::vector<std::vector<Interval>> shard_slice(std::span<const int64_t> shape, const Sharding& sharding,
                                               const Mesh& mesh, std::span<const int64_t> coordinate) {
  std::vector<std::vector<Interval>> slice(shape.size());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    for_each_segment(shape[dim], segments_of(sharding, dim),
                     [&](Interval run) { slice[dim].push_back(cut(run, sharding.spec[dim], mesh, coordinate)); });
  }
  return slice;
}

std::vector<int64_t> local_shape(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                                 std::span<const int64_t> coordinate) {
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (sharding.spec[dim].empty()) continue;
    sizes[dim] = 0;
    for_each_segment(shape[dim], segments_of(sharding, dim),
                     [&](Interval run) { sizes[dim] += length(cut(run, sharding.spec[dim], mesh, coordinate)); });
  }
  return sizes;
}

bool is_even(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh) {
  bool even = true;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t count = shard_count(sharding.spec[dim], mesh);
    for_each_segment(shape[dim], segments_of(sharding, dim),
                     [&](Interval run) { even = even && length(run) % count == 0; });
  }
  return even;
}

}  // namespace tpplan
