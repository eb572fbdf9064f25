// The lines of the graph notation that enter and leave modules, and the values that cross their boundaries.
#pragma once

#include "model/graph_text_reader.h"

namespace tpplan {

// Each reads one line after its first word: `with`, `return`, `nonlocal` or `output`.
[[nodiscard]] bool read_text_with(TextReader& reader);
[[nodiscard]] bool read_text_return(TextReader& reader);
[[nodiscard]] bool read_text_nonlocal(TextReader& reader);
[[nodiscard]] bool read_text_output(TextReader& reader);

// Ends the innermost module: unbinds its names, and binds the names of its results in the enclosing module.
[[nodiscard]] bool close_text_frame(TextReader& reader);

}  // namespace tpplan
