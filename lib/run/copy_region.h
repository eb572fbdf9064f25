// Copies of regions between the memory of ranks, as strided copies of a device.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "sharding/boxes.h"

namespace tpplan {

// One strided copy with the places where it begins, in bytes.
struct RegionCopy {
  uint64_t from_offset = 0, to_offset = 0;
  StridedCopy how;
};

// The copies of `part` out of a block that holds `from` into one that holds `to`; `part` lies in both. None when it is
// empty. False where elements of `bits` bits do not make whole bytes of a run, a stride or a place.
[[nodiscard]] bool plan_region_copy(const Region& from, const Region& to, const Region& part, unsigned bits,
                                    std::vector<RegionCopy>& copies);

}  // namespace tpplan
