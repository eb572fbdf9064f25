#include "run/region.h"

#include <algorithm>

namespace tpplan {
namespace {

using Runs = std::vector<Interval>;  // of one dim

uint64_t size_of(const Interval& run) { return static_cast<uint64_t>(length(run)); }

uint64_t size_of(const Runs& runs) {
  uint64_t size = 0;
  for (const Interval& run : runs) size += size_of(run);
  return size;
}

// Where a global index stands among the runs.
uint64_t place_in(const Runs& runs, int64_t index) {
  uint64_t place = 0;
  for (const Interval& run : runs) {
    if (index < run.end) return place + static_cast<uint64_t>(index - run.begin);
    place += size_of(run);
  }
  return place;
}

Runs common_runs(const Runs& a, const Runs& b) {
  Runs common;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size(); a[i].end < b[j].end ? ++i : ++j) {
    const Interval both{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (both.begin < both.end) common.push_back(both);
  }
  return common;
}

// Bits to bytes; false when they are not whole.
bool to_bytes(uint64_t& value, unsigned bits) {
  const unsigned __int128 total = static_cast<unsigned __int128>(value) * bits;
  value = static_cast<uint64_t>(total / 8);
  return total % 8 == 0;
}

// The copy of one box: a run of every dim.
bool plan_box(const Region& from, const Region& to, const std::vector<Interval>& box, unsigned bits, RegionCopy& copy) {
  uint64_t run = 1, from_stride = 1, to_stride = 1;
  bool is_one_run = true;  // so far, from the innermost dim outwards, the box is all of both blocks
  StridedCopy& how = copy.how;
  for (size_t dim = box.size(); dim-- > 0;) {
    const uint64_t size = size_of(box[dim]), from_size = size_of(from[dim]), to_size = size_of(to[dim]);
    copy.from_offset += place_in(from[dim], box[dim].begin) * from_stride;
    copy.to_offset += place_in(to[dim], box[dim].begin) * to_stride;
    if (is_one_run) {
      run *= size;
    } else if (size != 1) {
      how.counts.push_back(size);
      how.from_strides.push_back(from_stride);
      how.to_strides.push_back(to_stride);
    }
    is_one_run = is_one_run && size == from_size && size == to_size;
    from_stride *= from_size;
    to_stride *= to_size;
  }
  how.run_bytes = run;
  bool whole = to_bytes(how.run_bytes, bits) && to_bytes(copy.from_offset, bits) && to_bytes(copy.to_offset, bits);
  for (uint64_t& stride : how.from_strides) whole = to_bytes(stride, bits) && whole;
  for (uint64_t& stride : how.to_strides) whole = to_bytes(stride, bits) && whole;
  std::ranges::reverse(how.counts);
  std::ranges::reverse(how.from_strides);
  std::ranges::reverse(how.to_strides);
  return whole;
}

}  // namespace

Region region_of_slice(std::vector<std::vector<Interval>> slice) {
  for (Runs& runs : slice) {
    Runs apart;
    for (const Interval& run : runs) {
      if (run.begin >= run.end) continue;
      if (!apart.empty() && apart.back().end == run.begin) {
        apart.back().end = run.end;
      } else {
        apart.push_back(run);
      }
    }
    runs = std::move(apart);
  }
  return slice;
}

uint64_t elements_in(const Region& region) {
  uint64_t elements = 1;
  for (const Runs& runs : region) elements *= size_of(runs);
  return elements;
}

Region intersection(const Region& a, const Region& b) {
  Region both;
  for (size_t dim = 0; dim < a.size(); ++dim) both.push_back(common_runs(a[dim], b[dim]));
  return both;
}

bool plan_region_copy(const Region& from, const Region& to, const Region& part, unsigned bits,
                      std::vector<RegionCopy>& copies) {
  copies.clear();
  if (elements_in(part) == 0) return true;
  std::vector<size_t> choice(part.size());  // the run of each dim
  for (;;) {
    std::vector<Interval> box;
    for (size_t dim = 0; dim < part.size(); ++dim) box.push_back(part[dim][choice[dim]]);
    copies.emplace_back();
    if (!plan_box(from, to, box, bits, copies.back())) return false;
    size_t dim = part.size();
    while (dim > 0 && ++choice[dim - 1] == part[dim - 1].size()) choice[--dim] = 0;
    if (dim == 0) return true;
  }
}

}  // namespace tpplan
