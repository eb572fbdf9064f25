#include "sharding/boxes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

uint64_t size_of(const Interval& run) { return static_cast<uint64_t>(length(run)); }

uint64_t size_of(const Intervals& runs) {
  uint64_t size = 0;
  for (const Interval& run : runs) size += size_of(run);
  return size;
}

// Returns the position of a global index within the intervals.
uint64_t place_in(const Intervals& runs, uint64_t index) {
  uint64_t place = 0;
  for (const Interval& run : runs) {
    if (index < static_cast<uint64_t>(run.end)) return place + index - static_cast<uint64_t>(run.begin);
    place += size_of(run);
  }
  return place;
}

Intervals joined(const Intervals& runs) {
  Intervals apart;
  for (const Interval& run : runs) {
    if (run.begin >= run.end) continue;
    if (!apart.empty() && apart.back().end == run.begin)
      apart.back().end = run.end;
    else
      apart.push_back(run);
  }
  return apart;
}

// Both lists are sorted. The interval that ends first cannot intersect any later one.
Intervals common_intervals(const Intervals& a, const Intervals& b) {
  Intervals common;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size(); a[i].end < b[j].end ? ++i : ++j) {
    const Interval both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) common.push_back(both);
  }
  return common;
}

std::vector<uint64_t> sizes_of(const Region& region) {
  std::vector<uint64_t> sizes;
  for (const Intervals& runs : region) sizes.push_back(size_of(runs));
  return sizes;
}

}  // namespace

Region region_from_slice(std::vector<Intervals> slice) {
  for (Intervals& runs : slice) runs = joined(runs);
  return slice;
}

uint64_t elements_in(const Region& region) {
  uint64_t elements = 1;
  for (const Intervals& runs : region) elements *= size_of(runs);
  return elements;
}

Region intersection(const Region& a, const Region& b) {
  Region both;
  for (size_t dim = 0; dim < a.size(); ++dim) both.push_back(common_intervals(a[dim], b[dim]));
  return both;
}

uint64_t elements_in(const Box& box) {
  uint64_t elements = 1;
  for (size_t d = 0; d < box.begin.size(); ++d) elements *= box.end[d] - box.begin[d];
  return elements;
}

bool is_empty(const Box& box) {
  for (size_t d = 0; d < box.begin.size(); ++d) {
    if (box.begin[d] >= box.end[d]) return true;
  }
  return false;
}

Box intersection(const Box& a, const Box& b) {
  Box out = a;
  for (size_t d = 0; d < a.begin.size(); ++d) {
    out.begin[d] = std::max(a.begin[d], b.begin[d]);
    out.end[d] = std::max(out.begin[d], std::min(a.end[d], b.end[d]));
  }
  return out;
}

std::string to_text(const Box& box) {
  std::string text = "[";
  for (size_t d = 0; d < box.begin.size(); ++d)
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box.begin[d], box.end[d]);
  return text + "]";
}

HeldBox packed(const Box& box) {
  HeldBox held{.box = box, .at = std::vector<uint64_t>(box.begin.size()), .sizes = {}};
  for (size_t d = 0; d < box.begin.size(); ++d) held.sizes.push_back(box.end[d] - box.begin[d]);
  return held;
}

HeldBox within(const Box& box, std::span<const uint64_t> sizes) {
  return {.box = box, .at = box.begin, .sizes = {sizes.begin(), sizes.end()}};
}

HeldBox within(const Box& box, const Region& region) {
  HeldBox held{.box = box, .at = {}, .sizes = sizes_of(region)};
  for (size_t d = 0; d < region.size(); ++d) held.at.push_back(place_in(region[d], box.begin[d]));
  return held;
}

std::vector<HeldBox> boxes_of(const Region& region) {
  std::vector<HeldBox> boxes;
  if (elements_in(region) == 0) return boxes;
  for (std::vector<size_t> choice(region.size());;) {  // one interval for each dim, the last dim fastest
    Box box;
    for (size_t d = 0; d < region.size(); ++d) {
      box.begin.push_back(static_cast<uint64_t>(region[d][choice[d]].begin));
      box.end.push_back(static_cast<uint64_t>(region[d][choice[d]].end));
    }
    boxes.push_back(within(box, region));
    size_t d = region.size();
    while (d > 0 && ++choice[d - 1] == region[d - 1].size()) choice[--d] = 0;
    if (d == 0) return boxes;
  }
}

uint64_t row_size(const HeldBox& held, size_t dim) {
  uint64_t size = 1;
  for (size_t d = dim; d < held.sizes.size(); ++d) size *= held.sizes[d];
  return size;
}

uint64_t offset_of(const HeldBox& held, std::span<const uint64_t> global) {
  uint64_t offset = 0;
  for (size_t d = 0; d < global.size(); ++d)
    offset = offset * held.sizes[d] + (global[d] - held.box.begin[d] + held.at[d]);
  return offset;
}

// From the innermost dim outwards: while the box spans the dim in both buffers, its rows are contiguous and extend the
// range. The first dim that it does not span still extends the range, because its indices are adjacent; the dims
// outside of it become counts and strides.
BoxCopy plan_copy(const HeldBox& from, const HeldBox& to, const Box& box) {
  BoxCopy copy{.run = 1, .from_offset = offset_of(from, box.begin), .to_offset = offset_of(to, box.begin)};
  bool is_one_run = true;
  uint64_t from_stride = 1, to_stride = 1;
  for (size_t d = box.begin.size(); d-- > 0;) {
    const uint64_t size = box.end[d] - box.begin[d];
    if (is_one_run) {
      copy.run *= size;
    } else if (size != 1) {
      copy.counts.push_back(size);
      copy.from_strides.push_back(from_stride);
      copy.to_strides.push_back(to_stride);
    }
    is_one_run = is_one_run && size == from.sizes[d] && size == to.sizes[d];
    from_stride *= from.sizes[d];
    to_stride *= to.sizes[d];
  }
  for (auto* list : {&copy.counts, &copy.from_strides, &copy.to_strides}) std::ranges::reverse(*list);
  return copy;
}

}  // namespace tpplan
