// Literal arguments of an operation: dims, flags. Sizes that differ between ranks are not literal.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/op_graph.h"

namespace tpplan {

// Returns the argument at a position or with a keyword; nullptr if it is not given.
[[nodiscard]] const GraphArg* find_literal(const OpGraph& graph, const GraphNode& node, size_t position,
                                           std::string_view keyword);
[[nodiscard]] std::optional<int64_t> int_at(const OpGraph& graph, const GraphNode& node, size_t position,
                                            std::string_view keyword);
// Returns the numbers of a tuple, of several positional arguments from that position on, or the single number.
[[nodiscard]] std::vector<int64_t> ints_at(const OpGraph& graph, const GraphNode& node, size_t position,
                                           std::string_view keyword);

// Calls f(argument, index) for the elements of a tuple.
template <typename F>
void each_part(const OpGraph& graph, const GraphArg& tuple, F f) {
  const auto begin = static_cast<uint32_t>(&tuple - graph.args.data()) + 1;
  for (uint32_t i = begin; i < tuple.end; i = graph.args[i].end) f(graph.args[i]);
}

}  // namespace tpplan
