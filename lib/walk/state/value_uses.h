// Which values of a graph have other uses than those that a check permits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "walk/state/node_args.h"

namespace tpplan {

// Returns a flag by value: true if the value is one of `outputs`, or has a use that is not permitted. A use as argument
// of a node is permitted if `is_end(node, is_first)`, or if `passes(node, is_first)` and all uses of the results are.
// `is_first`: it is the first tensor among the arguments. Modules pass values. One pass over the nodes from the end.
template <typename IsEnd, typename Passes>
[[nodiscard]] std::vector<bool> has_other_uses(const OpGraph& graph, std::span<const ValueId> outputs, IsEnd is_end,
                                               Passes passes) {
  std::vector<bool> other(graph.values.size());
  for (const ValueId output : outputs) other[output] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (const Crossing& crossing : crossings_of(graph, *node))
      other[crossing.from] = other[crossing.from] || other[crossing.to];
    if (node->kind != NodeKind::Op) continue;
    bool of_results = false;
    for (uint32_t i = node->out_begin; i < node->out_end; ++i) of_results = of_results || other[graph.outs[i]];
    bool is_first = true;
    each_arg(graph, *node, [&](const GraphArg& arg) {
      if (arg.kind != ArgKind::Value) return;
      const bool is_permitted = is_end(*node, is_first) || (passes(*node, is_first) && !of_results);
      other[arg.id] = other[arg.id] || !is_permitted;
      is_first = false;
    });
  }
  return other;
}

}  // namespace tpplan
