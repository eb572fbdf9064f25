#include "exec/shards/byte_boxes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "diagnostics/fault.h"

namespace tpplan {
namespace {

// Converts an index of the last dim to bytes.
uint64_t bytes_up_to(uint64_t index, uint64_t bits, std::string_view what) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(index, bits, &product))
    throw Fault{.code = Code::ResourceLimit, .message = fmt::format("the size of {} in bytes exceeds 64 bits", what)};
  if (product % 8 != 0)
    throw Fault{.code = Code::RowsSplitBytes,
                .message = fmt::format("{} ends inside a byte: its elements have {} bits", what, bits)};
  return product / 8;
}

}  // namespace

std::vector<uint64_t> byte_sizes(std::span<const int64_t> shape, DType dtype) {
  const uint64_t bits = dtypes()[dtype].bits;
  std::vector<uint64_t> sizes(std::max<size_t>(1, shape.size()), 1);
  std::copy(shape.begin(), shape.end(), sizes.begin());
  sizes.back() = bytes_up_to(sizes.back(), bits, "a row");
  return sizes;
}

std::vector<HeldBox> held_boxes(std::span<const int64_t> shape, DType dtype, const std::vector<Intervals>& slice) {
  Region region = region_from_slice(slice);
  if (shape.empty()) region.push_back({{0, 1}});
  std::vector<HeldBox> boxes = boxes_of(region);
  const uint64_t bits = dtypes()[dtype].bits;
  for (HeldBox& held : boxes) {
    for (uint64_t* last : {&held.box.begin.back(), &held.box.end.back(), &held.at.back(), &held.sizes.back()})
      *last = bytes_up_to(*last, bits, "a shard");
  }
  return boxes;
}

bool is_writing_rank(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> coordinate) {
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (coordinate[axis] != 0 && !uses_axis(layout.sharding.spec, static_cast<AxisId>(axis))) return false;
  }
  return true;
}

std::string tiling_error(std::span<const uint64_t> sizes, std::span<const Box> boxes) {
  const uint64_t whole = std::accumulate(sizes.begin(), sizes.end(), uint64_t{1}, std::multiplies<>());
  std::vector<const Box*> order;
  uint64_t filled = 0;
  for (const Box& box : boxes) {
    if (is_empty(box)) continue;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (box.end[d] > sizes[d])
        return fmt::format("{} exceeds the tensor, whose dim {} has size {}", to_text(box), d, sizes[d]);
    }
    if (__builtin_add_overflow(filled, elements_in(box), &filled)) return "the shards are larger than the tensor";
    order.push_back(&box);
  }
  // Boxes that intersect in every dim overlap. They are sorted by the dim with the most boundaries, so that each is
  // compared only with the few after it that begin before it ends.
  size_t by = 0, most = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<uint64_t> begins;
    for (const Box* box : order) begins.push_back(box->begin[d]);
    std::ranges::sort(begins);
    const size_t distinct = static_cast<size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (distinct > most) most = distinct, by = d;
  }
  std::ranges::stable_sort(order, {}, [by](const Box* box) { return box->begin[by]; });
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i + 1; j < order.size() && order[j]->begin[by] < order[i]->end[by]; ++j) {
      if (!is_empty(intersection(*order[i], *order[j])))
        return fmt::format("{} and {} overlap", to_text(*order[i]), to_text(*order[j]));
    }
  }
  return filled == whole ? "" : fmt::format("{} of {} bytes are in no shard", whole - filled, whole);
}

}  // namespace tpplan
