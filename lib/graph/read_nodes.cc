#include "graph/read_nodes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "graph/graph_items.h"
#include "graph/read_args.h"

namespace tpplan {
namespace {

constexpr int32_t kMaxPosition = 1 << 30;

// [steps that lead to the value, value before, value behind, position of the parameter that a keyword names]
bool read_crossing(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& root = tree.nodes[at];
  if (!is_array(root) || root.end < at + 2 || !is_array(tree.nodes[at + 1]))
    return graph_fault(reader, root, "a value at a boundary is no [path, outside, inside]");
  Crossing crossing;
  for (GraphItems steps(tree, at + 1); steps.more();) {
    const JsonNode& step = tree.nodes[steps.next()];
    const bool is_position = step.kind == JsonKind::Integer && step.integer >= 0 && step.integer < kMaxPosition;
    if (step.kind != JsonKind::String && !is_position)
      return graph_fault(reader, step, "a step to a value at a boundary is neither a position nor a name");
    if (crossing.depth++ > 0) continue;  // the first step says which argument it is, the others only how deep inside
    if (is_position)
      crossing.position = static_cast<int32_t>(step.integer);
    else
      crossing.key = step.text;
  }
  GraphItems parts(tree, at);
  parts.next();
  if (!read_id(reader, tree, parts, crossing.from, "value") || !read_id(reader, tree, parts, crossing.to, "value"))
    return false;
  if (parts.more()) {
    uint32_t parameter = 0;
    if (!read_id(reader, tree, parts, parameter, "position of a parameter")) return false;
    crossing.parameter = static_cast<int32_t>(std::min<uint32_t>(parameter, kMaxPosition));
  }
  if (!no_more(reader, tree, parts, "a value at a boundary")) return false;
  reader.graph.crossings.push_back(crossing);
  return true;
}

bool read_crossings(GraphReader& reader, const JsonTree& tree, GraphItems& parts, GraphNode& node) {
  node.crossing_begin = static_cast<uint32_t>(reader.graph.crossings.size());
  if (!parts.more()) return graph_fault(reader, tree.nodes[0], "a boundary lacks its values");
  const uint32_t list = parts.next();
  if (!is_array(tree.nodes[list])) return graph_fault(reader, tree.nodes[list], "the values of a boundary are no list");
  for (GraphItems values(tree, list); values.more();) {
    if (!has_room(reader, reader.graph.crossings.size(), tree.nodes[0]) || !read_crossing(reader, tree, values.next()))
      return false;
  }
  node.crossing_end = static_cast<uint32_t>(reader.graph.crossings.size());
  return true;
}

bool read_boundary(GraphReader& reader, const JsonTree& tree, GraphItems& parts, GraphNode& node) {
  if (!read_id(reader, tree, parts, node.name, "module")) return false;
  if (node.kind == NodeKind::Enter) {
    if (!read_id(reader, tree, parts, node.positional, "number of positional arguments") ||
        !read_flag(reader, tree, parts, node.no_grad, "no_grad"))
      return false;
  }
  return read_crossings(reader, tree, parts, node) && no_more(reader, tree, parts, "a boundary");
}

// The keywords' arguments are appended behind the positional ones, so that all arguments of an op are one run of
// OpGraph::args: prove_args goes through them without looking at the tree again.
bool read_op(GraphReader& reader, const JsonTree& tree, GraphItems& parts, GraphNode& node) {
  OpGraph& graph = reader.graph;
  const auto list = [&](std::string_view what, uint32_t& at) {
    if (!parts.more()) return graph_fault(reader, tree.nodes[0], fmt::format("an op lacks its {}", what));
    at = parts.next();
    return is_array(tree.nodes[at]) ||
           graph_fault(reader, tree.nodes[at], fmt::format("the {} of an op are no list", what));
  };
  uint32_t at = 0;
  if (!list("arguments", at)) return false;
  node.args_begin = static_cast<uint32_t>(graph.args.size());
  for (GraphItems args(tree, at); args.more();) {
    if (!read_arg(reader, tree, args.next())) return false;
  }
  node.args_end = static_cast<uint32_t>(graph.args.size());
  if (!list("keywords", at)) return false;
  node.keywords_begin = static_cast<uint32_t>(graph.keywords.size());
  for (GraphItems keywords(tree, at); keywords.more();) {
    GraphKeyword keyword;
    if (!read_id(reader, tree, keywords, keyword.name, "keyword")) return false;
    if (!keywords.more()) return graph_fault(reader, tree.nodes[at], "a keyword lacks its argument");
    keyword.arg = static_cast<uint32_t>(graph.args.size());
    if (!read_arg(reader, tree, keywords.next())) return false;
    graph.keywords.push_back(keyword);
  }
  node.keywords_end = static_cast<uint32_t>(graph.keywords.size());
  if (!list("results", at)) return false;
  node.out_begin = static_cast<uint32_t>(graph.outs.size());
  for (GraphItems outs(tree, at); outs.more();) {
    uint32_t id = 0;
    if (!read_id(reader, tree, outs, id, "result") || !has_room(reader, graph.outs.size(), tree.nodes[0])) return false;
    graph.outs.push_back(id);
  }
  node.out_end = static_cast<uint32_t>(graph.outs.size());
  return no_more(reader, tree, parts, "an op");
}

}  // namespace

bool read_node(GraphReader& reader, const JsonTree& tree) {
  OpGraph& graph = reader.graph;
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root)) return graph_fault(reader, root, "an entry of `nodes` is no list");
  if (!has_room(reader, graph.nodes.size(), root)) return false;
  GraphItems parts(tree, 0);
  GraphNode node;
  node.offset = static_cast<uint32_t>(root.offset);
  if (!read_id(reader, tree, parts, node.name, "operation")) return false;
  if (node.name >= graph.strings.size())
    return graph_fault(reader, tree.nodes[1], "an operation is no entry of `strings`, which stands before `nodes`");
  const std::string_view op = graph.strings[node.name];
  if (op == "@enter" || op == "@exit") {
    node.kind = op == "@enter" ? NodeKind::Enter : NodeKind::Exit;
    if (!read_boundary(reader, tree, parts, node)) return false;
  } else if (!read_op(reader, tree, parts, node)) {
    return false;
  }
  graph.nodes.push_back(node);
  return true;
}

}  // namespace tpplan
