// Draws the sharding of a tensor for a terminal, as jax.debug.visualize_array_sharding does for one or two dims, but
// for any number of dims.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

struct GridOptions {
  size_t width = 80;   // columns; table columns beyond it are only counted
  bool ascii = false;  // draw with ASCII characters only
};

// Returns tables that list the ranks of each shard, with global indices as row and column headers. A table covers two
// dims; there is one for each combination of intervals of the other dims. Ends with a line break. Empty for a tensor
// that is replicated or has no elements.
[[nodiscard]] std::string render_grid(const ParamLayout& layout, const Mesh& mesh, const GridOptions& options);

}  // namespace tpplan
