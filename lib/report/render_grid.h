// Who holds which piece of a tensor, drawn for a terminal: what jax.debug.visualize_array_sharding draws of one or two
// dims, of any number.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

struct GridOptions {
  size_t width = 80;   // columns; what is wider is counted, and not drawn
  bool ascii = false;  // no character beyond ASCII
};

// Boxes with the ranks of each piece, its rows and columns in global indices, one table for each run of the dims that
// run neither down nor across. Empty for a tensor that is one piece or has no elements. Ends with a line break.
[[nodiscard]] std::string render_grid(const ParamLayout& layout, const Mesh& mesh, const GridOptions& options);

}  // namespace tpplan
