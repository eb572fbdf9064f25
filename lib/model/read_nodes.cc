#include "model/read_nodes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/graph_items.h"
#include "model/read_args.h"

namespace tpplan {
namespace {

// Reads [steps to the nested value, id before, id after the boundary, position of the keyword's parameter (optional)].
bool read_crossing(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& root = tree.nodes[at];
  if (!is_array(root) || root.end < at + 2 || !is_array(tree.nodes[at + 1]))
    return report_graph_error(reader, root, "a value at a boundary is not [path, outside, inside]");
  Crossing crossing;
  for (GraphItems steps(tree, at + 1); steps.more();) {
    const JsonNode& step = tree.nodes[steps.next()];
    const bool is_position = step.kind == JsonKind::Integer && step.integer >= 0 && step.integer < kMaxArgPosition;
    if (step.kind != JsonKind::String && !is_position)
      return report_graph_error(reader, step, "a step to a value at a boundary is neither a position nor a name");
    if (crossing.depth++ > 0) continue;  // the first step selects the argument; only the number of the others is used
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
    crossing.parameter = static_cast<int32_t>(std::min<uint32_t>(parameter, kMaxArgPosition));
  }
  if (!expect_last_item(reader, tree, parts, "a value at a boundary")) return false;
  reader.graph.crossings.push_back(crossing);
  return true;
}

// Reports a value that enters a module without being an argument. Clears the parameter of a result.
bool fits_boundary(GraphReader& reader, const GraphNode& node, Crossing& crossing, const JsonNode& at) {
  if (node.kind == NodeKind::Exit) crossing.parameter = -1;
  return node.kind == NodeKind::Exit || crossing.depth > 0 ||
         report_graph_error(reader, at, "a value enters a module but is not an argument of it");
}

bool read_crossings(GraphReader& reader, const JsonTree& tree, GraphItems& parts, GraphNode& node) {
  node.crossing_begin = static_cast<uint32_t>(reader.graph.crossings.size());
  if (!parts.more()) return report_graph_error(reader, tree.nodes[0], "a boundary has no values");
  const uint32_t list = parts.next();
  if (!is_array(tree.nodes[list]))
    return report_graph_error(reader, tree.nodes[list], "the values of a boundary are not a list");
  for (GraphItems values(tree, list); values.more();) {
    const uint32_t at = values.next();
    if (!check_capacity(reader, reader.graph.crossings.size(), tree.nodes[0]) || !read_crossing(reader, tree, at) ||
        !fits_boundary(reader, node, reader.graph.crossings.back(), tree.nodes[at]))
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
  return read_crossings(reader, tree, parts, node) && expect_last_item(reader, tree, parts, "a boundary");
}

// Reads an op. Appends keyword arguments after the positional ones, so that all arguments of an op are consecutive in
// OpGraph::args, as prove_args requires.
bool read_op(GraphReader& reader, const JsonTree& tree, GraphItems& parts, GraphNode& node) {
  OpGraph& graph = reader.graph;
  const auto list = [&](std::string_view what, uint32_t& at) {
    if (!parts.more()) return report_graph_error(reader, tree.nodes[0], fmt::format("an op has no {}", what));
    at = parts.next();
    return is_array(tree.nodes[at]) ||
           report_graph_error(reader, tree.nodes[at], fmt::format("the {} of an op are not a list", what));
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
    if (!keywords.more()) return report_graph_error(reader, tree.nodes[at], "a keyword has no argument");
    keyword.arg = static_cast<uint32_t>(graph.args.size());
    if (!read_arg(reader, tree, keywords.next())) return false;
    graph.keywords.push_back(keyword);
  }
  node.keywords_end = static_cast<uint32_t>(graph.keywords.size());
  if (!list("results", at)) return false;
  node.out_begin = static_cast<uint32_t>(graph.outs.size());
  for (GraphItems outs(tree, at); outs.more();) {
    uint32_t id = 0;
    if (!read_id(reader, tree, outs, id, "result") || !check_capacity(reader, graph.outs.size(), tree.nodes[0]))
      return false;
    graph.outs.push_back(id);
  }
  node.out_end = static_cast<uint32_t>(graph.outs.size());
  return expect_last_item(reader, tree, parts, "an op");
}

}  // namespace

bool read_node(GraphReader& reader, const JsonTree& tree) {
  OpGraph& graph = reader.graph;
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root)) return report_graph_error(reader, root, "an entry of `nodes` is not a list");
  if (!check_capacity(reader, graph.nodes.size(), root)) return false;
  GraphItems parts(tree, 0);
  GraphNode node;
  node.offset = static_cast<uint32_t>(root.offset);
  if (!read_id(reader, tree, parts, node.name, "operation")) return false;
  if (node.name >= graph.strings.size())
    return report_graph_error(reader, tree.nodes[1], "an operation is not in `strings`, which must precede `nodes`");
  const std::string_view op = graph.strings[node.name];
  if (op == "@enter" || op == "@exit") {
    node.kind = op == "@enter" ? NodeKind::Enter : NodeKind::Exit;
    if (!read_boundary(reader, tree, parts, node)) return false;
  } else {
    node.op = find_op(plain_op(op));
    node.in_place = is_in_place(op);
    if (!read_op(reader, tree, parts, node)) return false;
  }
  graph.nodes.push_back(node);
  return true;
}

}  // namespace tpplan
