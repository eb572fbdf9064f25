// Boxes of elements: what two ranks have in common, and copies of a box between two others that hold it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "sharding/shard_slice.h"

namespace tpplan {

// One run of global indices for each dim; a tensor without dims has one element.
using Box = std::vector<Interval>;

uint64_t elements_in(const Box& box);
Box intersection(const Box& a, const Box& b);

// One strided copy with the places where it begins, in bytes.
struct BoxCopy {
  uint64_t from_offset = 0, to_offset = 0;
  StridedCopy how;
};

// The copy of `part` out of a row-major block that holds `from` into one that holds `to`; `part` lies in both and is not
// empty. False where elements of `bits` bits do not make whole bytes of a run, a stride or a place.
bool plan_box_copy(const Box& from, const Box& to, const Box& part, unsigned bits, BoxCopy& copy);

}  // namespace tpplan
