#include "cost/node_literals.h"

namespace tpplan {

const GraphArg* find_literal(const OpGraph& graph, const GraphNode& node, size_t position, std::string_view keyword) {
  size_t at = 0;
  for (uint32_t i = node.args_begin; i < node.args_end; i = graph.args[i].end) {
    if (at++ == position) return &graph.args[i];
  }
  for (uint32_t i = node.keywords_begin; i < node.keywords_end; ++i) {
    if (keyword_name(graph, i) == keyword) return &graph.args[graph.keywords[i].arg];
  }
  return nullptr;
}

std::optional<int64_t> int_at(const OpGraph& graph, const GraphNode& node, size_t position, std::string_view keyword) {
  const GraphArg* arg = find_literal(graph, node, position, keyword);
  if (arg == nullptr || arg->kind != ArgKind::Int) return std::nullopt;
  return arg->integer;
}

std::vector<int64_t> ints_at(const OpGraph& graph, const GraphNode& node, size_t position, std::string_view keyword) {
  std::vector<int64_t> found;
  const GraphArg* arg = find_literal(graph, node, position, keyword);
  if (arg == nullptr) return found;
  if (arg->kind == ArgKind::Tuple) {
    each_part(graph, *arg, [&](const GraphArg& part) {
      if (part.kind == ArgKind::Int) found.push_back(part.integer);
    });
    return found;
  }
  for (size_t i = position; arg != nullptr && arg->kind == ArgKind::Int; ++i) {
    found.push_back(arg->integer);
    arg = find_literal(graph, node, i + 1, {});
  }
  return found;
}

}  // namespace tpplan
