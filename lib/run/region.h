// What ranks hold of a tensor as sets of elements: what two of them have in common, and copies of that between their
// memory.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "sharding/shard_slice.h"

namespace tpplan {

// For each dim runs of global indices, ascending and apart, none of them empty: one, none, or several where a fused dim
// is cut. A tensor without dims has one element. A block that holds a region is row major over its runs, one after the
// other.
using Region = std::vector<std::vector<Interval>>;

// What shard_slice says as a region: empty runs left out, runs that touch made one. The block is the same.
Region region_of_slice(std::vector<std::vector<Interval>> slice);

uint64_t elements_in(const Region& region);
Region intersection(const Region& a, const Region& b);

// One strided copy with the places where it begins, in bytes.
struct RegionCopy {
  uint64_t from_offset = 0, to_offset = 0;
  StridedCopy how;
};

// The copies of `part` out of a block that holds `from` into one that holds `to`; `part` lies in both. None when it is
// empty. False where elements of `bits` bits do not make whole bytes of a run, a stride or a place.
bool plan_region_copy(const Region& from, const Region& to, const Region& part, unsigned bits,
                      std::vector<RegionCopy>& copies);

}  // namespace tpplan
