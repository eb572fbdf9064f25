// The lines of the graph notation above the operations: settings of the trace, rules of operations, leaves, sizes and
// guards.
#pragma once

#include "model/graph_text_reader.h"

namespace tpplan {

// Each reads one line after its first word, such as `trace` or `param`.
[[nodiscard]] bool read_text_settings(TextReader& reader);
[[nodiscard]] bool read_text_rule(TextReader& reader);
[[nodiscard]] bool read_text_leaf(TextReader& reader, LeafKind kind);
[[nodiscard]] bool read_text_size_line(TextReader& reader);
[[nodiscard]] bool read_text_assert(TextReader& reader);

}  // namespace tpplan
