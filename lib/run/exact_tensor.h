// Test data in a rank's memory, and what it should be after any number of redistributions.
#pragma once

#include "ranks/backend.h"
#include "run/exact_data.h"
#include "run/redistribute_step.h"

namespace tpplan {

// The axes that are Partial in a layout, and the first of their reductions.
[[nodiscard]] std::vector<AxisId> open_axes(std::span<const Placement> placements);
[[nodiscard]] ReduceOp open_op(std::span<const Placement> placements);

// Allocates `tensor` (name, shape, dtype and placements are set) and fills it with `data`, of which the axes that are
// not Partial in `tensor` are reduced. False with the fault in comm.
[[nodiscard]] bool make_exact(Comm& comm, const Mesh& mesh, const ExactTensor& data, LocalTensor& tensor);

// How many of the rank's elements are not those of `data`, bytes compared.
[[nodiscard]] uint64_t count_wrong(const Comm& comm, const Mesh& mesh, const ExactTensor& data,
                                   const LocalTensor& tensor);

// A tensor's bytes on the host.
[[nodiscard]] std::vector<char> host_bytes(const Comm& comm, const LocalTensor& tensor);

}  // namespace tpplan
