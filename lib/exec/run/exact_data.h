// Test data as a function of the global index: integers so small that their sums are exact in every order. So each rank
// knows the result of any redistribution without communication and compares it bit for bit. If the sum over all ranks
// would not be exact in the dtype, only some ranks contribute to an element, and others to the next. (The average of
// many ranks is exact if the odd part of their number and two more bits fit into the mantissa.)
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

// A tensor of test data over a mesh. Along each axis of `partial` the ranks contribute different values, and the tensor
// is their reduction.
struct ExactTensor {
  uint64_t salt = 0;  // tensors with different salts have different values
  std::vector<int64_t> shape;
  DType dtype = 0;
  std::vector<AxisId> partial;
  ReduceOp op = ReduceOp::Sum;
};

// Returns an integer from -2 to 2: element `index` (row major, global) of contribution `part`.
[[nodiscard]] int exact_value(uint64_t salt, uint64_t index, uint64_t part);

// True if values of this dtype can be added: integers of at least 8 bits, floating point of at least 16.
[[nodiscard]] bool supports_sums(DType dtype);

// Returns the rank's values in storage order, as bytes of the dtype: the elements of `slice` (intervals of global
// indices for each dim), reduced over the axes of `tensor.partial` that are not in `open`. Along axes in `open` the
// values are this rank's partial ones. Unsigned values are 0 to 4. For a dtype without arithmetic the bytes depend on
// the index, and `tensor.partial` must be empty. @pre elements have whole bytes
[[nodiscard]] std::vector<char> exact_bytes(const ExactTensor& tensor, const Mesh& mesh,
                                            std::span<const int64_t> coordinate,
                                            const std::vector<std::vector<Interval>>& slice,
                                            std::span<const AxisId> open);

}  // namespace tpplan
