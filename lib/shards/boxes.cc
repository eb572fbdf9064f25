#include "shards/boxes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace tpplan {
namespace {

// Indices of the last dim as bytes.
uint64_t bytes_up_to(uint64_t index, uint64_t bits, std::string_view what) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(index, bits, &product))
    throw std::runtime_error(fmt::format("{} takes more bytes than 64 bits count", what));
  if (product % 8 != 0)
    throw std::runtime_error(fmt::format("{} ends inside a byte: its elements have {} bits", what, bits));
  return product / 8;
}

// Runs that continue each other as one.
std::vector<Interval> joined(const std::vector<Interval>& runs) {
  std::vector<Interval> out;
  for (const Interval& run : runs) {
    if (run.begin == run.end) continue;
    if (!out.empty() && out.back().end == run.begin)
      out.back().end = run.end;
    else
      out.push_back(run);
  }
  return out;
}

}  // namespace

std::vector<uint64_t> byte_sizes(std::span<const int64_t> shape, DType dtype) {
  const uint64_t bits = dtypes()[dtype].bits;
  std::vector<uint64_t> sizes(shape.begin(), shape.end());
  if (sizes.empty()) sizes.push_back(1);
  sizes.back() = bytes_up_to(sizes.back(), bits, "a row");
  return sizes;
}

uint64_t bytes_in(const Box& box) {
  uint64_t bytes = 1;
  for (size_t d = 0; d < box.begin.size(); ++d) bytes *= box.end[d] - box.begin[d];
  return bytes;
}

bool is_empty(const Box& box) {
  for (size_t d = 0; d < box.begin.size(); ++d) {
    if (box.begin[d] >= box.end[d]) return true;
  }
  return false;
}

Box intersect(const Box& a, const Box& b) {
  Box out = a;
  for (size_t d = 0; d < a.begin.size(); ++d) {
    out.begin[d] = std::max(a.begin[d], b.begin[d]);
    out.end[d] = std::max(out.begin[d], std::min(a.end[d], b.end[d]));
  }
  return out;
}

uint64_t row_bytes(const HeldBox& held, size_t dim) {
  uint64_t bytes = 1;
  for (size_t d = dim; d < held.sizes.size(); ++d) bytes *= held.sizes[d];
  return bytes;
}

HeldBox packed(const Box& box) {
  HeldBox held{.box = box, .at = std::vector<uint64_t>(box.begin.size()), .sizes = {}};
  for (size_t d = 0; d < box.begin.size(); ++d) held.sizes.push_back(box.end[d] - box.begin[d]);
  return held;
}

HeldBox within(const Box& box, std::span<const uint64_t> sizes) {
  return {.box = box, .at = box.begin, .sizes = {sizes.begin(), sizes.end()}};
}

uint64_t offset_of(const HeldBox& held, std::span<const uint64_t> global) {
  uint64_t offset = 0;
  for (size_t d = 0; d < global.size(); ++d)
    offset = offset * held.sizes[d] + (global[d] - held.box.begin[d] + held.at[d]);
  return offset;
}

std::vector<HeldBox> held_boxes(std::span<const int64_t> shape, DType dtype,
                                const std::vector<std::vector<Interval>>& slice) {
  const uint64_t bits = dtypes()[dtype].bits;
  std::vector<std::vector<Interval>> runs;
  for (const std::vector<Interval>& of_dim : slice) runs.push_back(joined(of_dim));
  if (shape.empty()) runs.push_back({{0, 1}});
  HeldBox form;
  for (const std::vector<Interval>& of_dim : runs) {
    uint64_t size = 0;
    for (const Interval& run : of_dim) size += static_cast<uint64_t>(length(run));
    form.sizes.push_back(size);
  }
  form.sizes.back() = bytes_up_to(form.sizes.back(), bits, "a shard");
  std::vector<HeldBox> held;
  if (std::ranges::any_of(runs, [](const auto& of_dim) { return of_dim.empty(); })) return held;
  for (std::vector<size_t> pick(runs.size());;) {  // every choice of one run a dim, the last dim fastest
    HeldBox next = form;
    for (size_t d = 0; d < runs.size(); ++d) {
      const Interval& run = runs[d][pick[d]];
      uint64_t at = 0;
      for (size_t i = 0; i < pick[d]; ++i) at += static_cast<uint64_t>(length(runs[d][i]));
      const bool last = d + 1 == runs.size();
      const auto in_bytes = [&](uint64_t index) { return last ? bytes_up_to(index, bits, "a shard") : index; };
      next.box.begin.push_back(in_bytes(static_cast<uint64_t>(run.begin)));
      next.box.end.push_back(in_bytes(static_cast<uint64_t>(run.end)));
      next.at.push_back(in_bytes(at));
    }
    held.push_back(std::move(next));
    size_t d = runs.size();
    while (d > 0 && ++pick[d - 1] == runs[d - 1].size()) pick[--d] = 0;
    if (d == 0) return held;
  }
}

bool is_first_holder(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> coordinate) {
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (coordinate[axis] != 0 && !uses_axis(layout.sharding.spec, static_cast<AxisId>(axis))) return false;
  }
  return true;
}

std::string tiling_fault(std::span<const uint64_t> sizes, std::span<const Box> boxes) {
  const uint64_t whole = std::accumulate(sizes.begin(), sizes.end(), uint64_t{1}, std::multiplies<>());
  std::vector<const Box*> order;
  uint64_t filled = 0;
  for (const Box& box : boxes) {
    if (is_empty(box)) continue;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (box.end[d] > sizes[d])
        return fmt::format("{} reaches beyond the tensor, whose dim {} has {}", to_text(box), d, sizes[d]);
    }
    if (__builtin_add_overflow(filled, bytes_in(box), &filled)) return "the pieces are larger than the tensor";
    order.push_back(&box);
  }
  // Pieces that no dim keeps apart overlap. Sorted by the dim with the most cuts, a piece is compared with the few
  // behind it that begin before it ends.
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
      if (!is_empty(intersect(*order[i], *order[j])))
        return fmt::format("{} and {} overlap", to_text(*order[i]), to_text(*order[j]));
    }
  }
  return filled == whole ? "" : fmt::format("{} of {} bytes are in no piece", whole - filled, whole);
}

std::string to_text(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.begin.size(); ++d)
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box.begin[d], box.end[d]);
  return text + "]";
}

}  // namespace tpplan
