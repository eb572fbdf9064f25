// Layouts of slices, splits and concatenations of a dim.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ops/dim_layout.h"

namespace tpplan {

// A slice [begin, end) with a step of a rank's local elements.
struct LocalSlice {
  int64_t begin = 0, end = 0, step = 1;
};

// Returns the layout of a slice: each rank takes `local` of its elements; `global` is the slice of the traced step. It
// is right if each rank takes those of its elements that are in the traced slice; chunk(2) of a fused gate and up that
// was sharded as one dim takes others. Returns nullopt in that case, with the difference in `fault`.
[[nodiscard]] std::optional<DimLayoutId> slice_layout(DimLayoutTable& table, DimLayoutId map,
                                                      std::span<const LocalSlice> local, const LocalSlice& global,
                                                      std::string& fault);

// Returns the layout of a concatenation of local parts. nullopt if it has too many intervals to track.
[[nodiscard]] std::optional<DimLayoutId> concat_layouts(DimLayoutTable& table, std::span<const DimLayoutId> parts);

}  // namespace tpplan
