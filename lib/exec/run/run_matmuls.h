// Compares the sharded matmul of every styled Linear and Embedding, forward and backward, with the unsharded one.
#pragma once

#include <cstdint>
#include <string>

#include "exec/ranks/backend.h"
#include "exec/run/list_matmuls.h"
#include "exec/run/matmul_result.h"
#include "manifest/manifest.h"

namespace tpplan {

// Runs y = x W, dx = dy W', dW = x' dy in float32 on integers so small that every order of summation gives the same
// result. x has the boundary's layout `from` and is redistributed; each rank multiplies its local operands; y is
// redistributed to `to`. The gradients take the reverse steps, and dW those of grad_reduce. Each must end in the layout
// that the manifest declares. A declared Partial output must be reduced by an enclosing module, otherwise it is an
// error. The batch axes (data, FSDP) shard the sequences even if the boundary does not list them; the weight is
// gathered over FSDP's axis first. All ranks call it with the same matmul. Returns false if comm.fault is set.
[[nodiscard]] bool run_module_matmul(Comm& comm, const Manifest& manifest, const ModuleMatmul& matmul, int64_t tokens,
                                     MatmulResult& result);

}  // namespace tpplan
