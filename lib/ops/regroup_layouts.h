// Layouts of dims that a view merges and splits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/dim_layout.h"

namespace tpplan {

// Returns the layouts of consecutive dims after a view as dims of other sizes with the same product. `local` has the
// local sizes of the new dims, [dim][rank]. Returns nullopt if the shards are no shards of the new dims, as when a
// shard boundary is inside a head.
//
// A view (torch.Tensor.view) preserves the row-major order of elements, both globally and on each rank. So the n-th
// local element stays the n-th. The old layouts determine its global index, and the new ones are right if and only if
// they give it the same global index.
[[nodiscard]] std::optional<std::vector<DimLayoutId>> regroup_layouts(DimLayoutTable& table,
                                                                      std::span<const DimLayoutId> from,
                                                                      std::span<const int64_t> to,
                                                                      std::span<const std::vector<int64_t>> local,
                                                                      std::string& fault);

}  // namespace tpplan
