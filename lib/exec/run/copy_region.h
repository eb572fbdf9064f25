// Copies regions between buffers as strided copies of a device.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/device/device.h"
#include "sharding/boxes.h"

namespace tpplan {

// One strided copy and its offsets in bytes.
struct RegionCopy {
  uint64_t from_offset = 0, to_offset = 0;
  StridedCopy how;
};

// Plans the copies of `part` from a buffer of region `from` to a buffer of region `to`, which both contain it. Returns
// false if elements of `bits` bits do not fill whole bytes of a contiguous range, a stride or an offset.
[[nodiscard]] bool plan_region_copy(const Region& from, const Region& to, const Region& part, unsigned bits,
                                    std::vector<RegionCopy>& copies);

}  // namespace tpplan
