// An operation's arguments as a rule sees them: values with what ranks hold, sizes with what they come to on each rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "walk/walk_state.h"

namespace tpplan {

// Every argument of the node, those in tuples and keywords too.
[[nodiscard]] inline std::span<const GraphArg> args_of(const OpGraph& graph, const GraphNode& node) {
  const uint32_t end = node.keywords_begin < node.keywords_end
                           ? graph.args[graph.keywords[node.keywords_end - 1].arg].end
                           : node.args_end;
  return std::span(graph.args).subspan(node.args_begin, end - node.args_begin);
}

// What is looked at of an operation before its rule is asked.
struct NodeOperands {
  bool plain = true;  // all operands and sizes are as recorded
  bool dtensors = false, sizes = false;
  std::string key;  // into WalkTables::memo
  std::vector<TapeSlot> ins;
};

// Calls f(argument) for each of them.
template <typename F>
void each_arg(const OpGraph& graph, const GraphNode& node, F f) {
  for (const GraphArg& arg : args_of(graph, node)) f(arg);
}

[[nodiscard]] std::vector<ValueId> values_in(const Walk& walk, const GraphNode& node);
[[nodiscard]] OpCall call_of(Walk& walk, const GraphNode& node);

// What a size comes to on each rank where the code asks for it now. Of a DTensor it is the size that it claims: code
// that reads x.shape sees the whole dim there, and its own piece of a plain tensor.
[[nodiscard]] uint32_t size_number(Walk& walk, uint32_t size);
// What the sizes among a node's arguments come to where each rank asks its own piece, of DTensors too. By size entry.
[[nodiscard]] std::vector<uint32_t> local_size_numbers(Walk& walk, const GraphNode& node);

}  // namespace tpplan
