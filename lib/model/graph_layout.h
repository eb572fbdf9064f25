// The positions of sizes and guards in the text of a graph, and the module that each value is visible in.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/op_graph.h"

namespace tpplan {

// One call of a module, from its Enter to its Exit. The first frame is the model and has neither.
struct GraphFrame {
  uint32_t parent = kNoId, depth = 0;
  uint32_t enter = kNoId, exit = kNoId;  // nodes
};

// A position is a node index: a line at position i precedes node i. The last position follows all nodes.
struct GraphLayout {
  std::vector<GraphFrame> frames;
  std::vector<uint32_t> frame_at;     // by position: the enclosing frame
  std::vector<uint32_t> frame_of;     // by value: the frame that its name is bound in; kNoId: visible everywhere
  std::vector<uint32_t> first_equal;  // by size entry: the first equal entry, which is printed instead
  std::vector<bool> is_named;         // by size entry: true if it has a name and a `size` line
  std::vector<std::pair<uint32_t, uint32_t>> size_lines;  // position and entry, ascending
  std::vector<uint32_t> guard_positions;                  // by guard, ascending
};

// Computes the layout. A size is written out at each use. It gets a name if it is long, or if its value has no name at
// the use. @pre prove_graph accepted the graph.
[[nodiscard]] GraphLayout lay_out_graph(const OpGraph& graph);

}  // namespace tpplan
