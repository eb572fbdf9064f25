// Test data as a function of the global index: whole numbers so small that their sums are exact in every order, so that
// what a rank should hold after any redistribution is known without communication and compared to the bit. However many
// ranks contribute: where all of their numbers together would pass what the type holds exactly, only so many of them
// contribute to an element, others to the next. (Averages of many ranks are exact where the odd part of their number
// and two bits are.)
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sharding/dtype.h"
#include "sharding/mesh.h"
#include "sharding/placement.h"
#include "sharding/shard_slice.h"

namespace tpplan {

// A tensor of test data over a mesh. On each axis of `partial` every rank contributes values of its own, and the
// tensor's value is their reduction.
struct ExactTensor {
  uint64_t salt = 0;  // tensors with other salts have other values
  std::vector<int64_t> shape;
  DType dtype = 0;
  std::vector<AxisId> partial;
  ReduceOp op = ReduceOp::Sum;
};

// A whole number from -2 to 2: element `index` (row major, global) of contribution `part`.
[[nodiscard]] int exact_value(uint64_t salt, uint64_t index, uint64_t part);

// True when numbers of this dtype can be added: whole numbers of 8 bits and more, and floating point of 16 and more.
[[nodiscard]] bool has_arithmetic(DType dtype);

// The rank's values in storage order, as bytes of the dtype: the elements of `slice` (runs of global indices, per dim),
// reduced over the axes of `tensor.partial` that are not in `open`; on those in `open` the rank has its own
// contribution only. Unsigned numbers run from 0 to 4. A dtype without arithmetic gets bytes that depend on the index;
// `tensor.partial` is empty then. Elements take whole bytes.
[[nodiscard]] std::vector<char> exact_bytes(const ExactTensor& tensor, const Mesh& mesh,
                                            std::span<const int64_t> coordinate,
                                            const std::vector<std::vector<Interval>>& slice,
                                            std::span<const AxisId> open);

}  // namespace tpplan
