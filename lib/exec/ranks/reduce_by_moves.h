// Reductions for backends and dtypes without a native one, built from the backend's all_to_all and all_gather and the
// device's arithmetic. They reduce in group order, like `local`, with bitwise identical results.
#pragma once

#include <cstdint>
#include <span>

#include "exec/ranks/backend.h"

namespace tpplan {

// Implement Backend::all_reduce and Backend::reduce_scatter (exec/ranks/backend.h). They allocate device memory of up
// to the size of `in` or `data`, and throw std::bad_alloc if it runs out.
[[nodiscard]] bool all_reduce_by_moves(Comm& comm, const Group& group, void* data, uint64_t elements, DType dtype,
                                       ReduceOp op);
[[nodiscard]] bool reduce_scatter_by_moves(Comm& comm, const Group& group, const void* in, void* out,
                                           std::span<const uint64_t> elements, DType dtype, ReduceOp op);

// True if the device has arithmetic for the dtype; otherwise sets comm.fault.
[[nodiscard]] bool can_reduce(Comm& comm, DType dtype);

}  // namespace tpplan
