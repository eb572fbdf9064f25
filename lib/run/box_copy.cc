#include "run/box_copy.h"

#include <algorithm>

namespace tpplan {
namespace {

uint64_t size_of(const Interval& run) { return static_cast<uint64_t>(length(run)); }

// Bits to bytes; false when they are not whole.
bool to_bytes(uint64_t& value, unsigned bits) {
  const unsigned __int128 total = static_cast<unsigned __int128>(value) * bits;
  value = static_cast<uint64_t>(total / 8);
  return total % 8 == 0;
}

}  // namespace

uint64_t elements_in(const Box& box) {
  uint64_t elements = 1;
  for (const Interval& run : box) elements *= size_of(run);
  return elements;
}

Box intersection(const Box& a, const Box& b) {
  Box both(a.size());
  for (size_t dim = 0; dim < a.size(); ++dim) {
    both[dim].begin = std::max(a[dim].begin, b[dim].begin);
    both[dim].end = std::max(both[dim].begin, std::min(a[dim].end, b[dim].end));
  }
  return both;
}

bool plan_box_copy(const Box& from, const Box& to, const Box& part, unsigned bits, BoxCopy& copy) {
  copy = {};
  uint64_t run = 1, from_stride = 1, to_stride = 1;
  bool is_one_run = true;  // so far, from the innermost dim outwards, the part is all of both blocks
  StridedCopy how;
  for (size_t dim = part.size(); dim-- > 0;) {
    copy.from_offset += static_cast<uint64_t>(part[dim].begin - from[dim].begin) * from_stride;
    copy.to_offset += static_cast<uint64_t>(part[dim].begin - to[dim].begin) * to_stride;
    if (is_one_run) {
      run *= size_of(part[dim]);
    } else if (size_of(part[dim]) != 1) {
      how.counts.push_back(size_of(part[dim]));
      how.from_strides.push_back(from_stride);
      how.to_strides.push_back(to_stride);
    }
    is_one_run = is_one_run && part[dim] == from[dim] && part[dim] == to[dim];
    from_stride *= size_of(from[dim]);
    to_stride *= size_of(to[dim]);
  }
  how.run_bytes = run;
  bool whole = to_bytes(how.run_bytes, bits) && to_bytes(copy.from_offset, bits) && to_bytes(copy.to_offset, bits);
  for (uint64_t& stride : how.from_strides) whole = to_bytes(stride, bits) && whole;
  for (uint64_t& stride : how.to_strides) whole = to_bytes(stride, bits) && whole;
  std::ranges::reverse(how.counts);
  std::ranges::reverse(how.from_strides);
  std::ranges::reverse(how.to_strides);
  copy.how = std::move(how);
  return whole;
}

}  // namespace tpplan
