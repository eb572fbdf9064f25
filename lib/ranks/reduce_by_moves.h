// Reductions for backends, and types, whose library has none of its own: a backend's moves and the device's arithmetic.
// They reduce in member order, as `local` does, and give its bytes.
#pragma once

#include <cstdint>
#include <span>

#include "ranks/backend.h"

namespace tpplan {

// What Backend::all_reduce and Backend::reduce_scatter (ranks/backend.h) promise, over comm.backend's all_to_all and
// all_gather. They take as much memory of the device as `in` or `data` has; throw std::bad_alloc without it.
[[nodiscard]] bool all_reduce_by_moves(Comm& comm, const Group& group, void* data, uint64_t elements, DType dtype,
                                       ReduceOp op);
[[nodiscard]] bool reduce_scatter_by_moves(Comm& comm, const Group& group, const void* in, void* out,
                                           std::span<const uint64_t> elements, DType dtype, ReduceOp op);

// False with comm.fault set when the device has no arithmetic for the type.
[[nodiscard]] bool can_reduce(Comm& comm, DType dtype);

}  // namespace tpplan
