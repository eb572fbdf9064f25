// The arguments of an operation as its rule sees them: values with layouts, sizes with their number on each rank.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "walk/state/walk_state.h"

namespace tpplan {

// Returns every argument of the node, including those in tuples and keywords.
[[nodiscard]] inline std::span<const GraphArg> args_of(const OpGraph& graph, const GraphNode& node) {
  const uint32_t end = node.keywords_begin < node.keywords_end
                           ? graph.args[graph.keywords[node.keywords_end - 1].arg].end
                           : node.args_end;
  return std::span(graph.args).subspan(node.args_begin, end - node.args_begin);
}

// The operands of an operation, collected before its rule runs.
struct NodeOperands {
  bool plain = true;  // all operands and sizes are as traced
  bool dtensors = false, sizes = false;
  std::string key;  // into WalkTables::memo
  std::vector<TapeSlot> ins;
  const LocalCounts* counts = nullptr;  // that the operation's sizes may use
};

// Calls f(argument) for every argument.
template <typename F>
void each_arg(const OpGraph& graph, const GraphNode& node, F f) {
  for (const GraphArg& arg : args_of(graph, node)) f(arg);
}

[[nodiscard]] std::vector<ValueId> input_values(const Walk& walk, const GraphNode& node);
[[nodiscard]] OpCall op_call_of(Walk& walk, const GraphNode& node);

// Returns the numbers that the code of the running module divides; nullptr if it divides none.
[[nodiscard]] const LocalCounts* local_counts(const Walk& walk);

// Returns the id of a size's number on each rank, evaluated at this point of the walk. For a DTensor it is the size of
// the declared shape: x.shape has the global dim of a DTensor and the local dim of a plain tensor.
[[nodiscard]] uint32_t evaluate_size(Walk& walk, uint32_t size);
// Returns the ids of the sizes among a node's arguments, with local sizes of DTensors too. By size entry; kNoId for
// entries that are no argument.
[[nodiscard]] std::vector<uint32_t> local_size_numbers(Walk& walk, const GraphNode& node);

}  // namespace tpplan
