// Test data in a rank's memory, and its comparison with the expected values after any redistributions.
#pragma once

#include "exec/ranks/backend.h"
#include "exec/run/exact_data.h"
#include "exec/run/redistribute_step.h"

namespace tpplan {

// partial_axes returns the axes with a Partial placement, partial_op the first of their reductions.
[[nodiscard]] std::vector<AxisId> partial_axes(std::span<const Placement> placements);
[[nodiscard]] ReduceOp partial_op(std::span<const Placement> placements);

// Allocates `tensor` (name, shape, dtype and placements are set) and fills it with `data`, reduced over the axes that
// are not Partial in `tensor`. Returns false with the error in `comm.fault`.
[[nodiscard]] bool make_exact_tensor(Comm& comm, const Mesh& mesh, const ExactTensor& data, LocalTensor& tensor);

// Returns how many of the rank's elements differ from `data`, bit for bit.
[[nodiscard]] uint64_t count_wrong_elements(const Comm& comm, const Mesh& mesh, const ExactTensor& data,
                                            const LocalTensor& tensor);

// Copies a tensor's bytes to the host.
[[nodiscard]] std::vector<char> host_bytes(const Comm& comm, const LocalTensor& tensor);

}  // namespace tpplan
