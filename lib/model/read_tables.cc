#include "model/read_tables.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <span>

#include "model/graph_items.h"
#include "model/size_ops.h"

namespace tpplan {
namespace {

// Reads an operand: an integer is a literal, [k] is entry k of the sizes.
bool read_operand(GraphReader& reader, const JsonTree& tree, uint32_t at, SizeOperand& operand) {
  const JsonNode& node = tree.nodes[at];
  if (node.kind == JsonKind::Integer) {
    operand = {false, node.integer};
    return true;
  }
  if (is_array(node) && node.end == at + 2 && tree.nodes[at + 1].kind == JsonKind::Integer) {
    const int64_t entry = tree.nodes[at + 1].integer;
    if (entry < 0 || entry >= kNoId)
      return report_graph_error(reader, node, "an operand of a size is not the index of an entry");
    operand = {true, entry};
    return true;
  }
  return report_graph_error(reader, node,
                            "an operand of a size is neither an integer nor the index of an entry, such as [3]");
}

}  // namespace

bool read_string(GraphReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (node.kind != JsonKind::String) return report_graph_error(reader, node, "an entry of `strings` is not a string");
  if (!check_capacity(reader, reader.graph.strings.size(), node)) return false;
  reader.graph.strings.push_back(node.text);
  return true;
}

bool read_shape(GraphReader& reader, const JsonTree& tree) {
  OpGraph& graph = reader.graph;
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root)) return report_graph_error(reader, root, "an entry of `shapes` is not a list of sizes");
  if (!check_capacity(reader, graph.shapes.size(), root)) return false;
  GraphShape shape{.begin = static_cast<uint32_t>(graph.shape_sizes.size()), .ndim = 0};
  for (GraphItems sizes(tree, 0); sizes.more();) {
    const JsonNode& size = tree.nodes[sizes.next()];
    if (size.kind != JsonKind::Integer || size.integer < 0)
      return report_graph_error(reader, size, "a size in `shapes` is not a count");
    if (++shape.ndim > 64) return report_graph_error(reader, size, "a shape has more than 64 dims");
    graph.shape_sizes.push_back(size.integer);
  }
  // Limits products of sizes to 2^62, so that no sum or offset of them overflows.
  // A size of 0 counts as 1, because it would hide that other sizes are too large.
  int64_t elements = 1;
  for (uint32_t i = 0; i < shape.ndim; ++i) {
    const int64_t size = std::max<int64_t>(1, graph.shape_sizes[shape.begin + i]);
    if (size > (int64_t{1} << 62) / elements)
      return report_graph_error(reader, root, "a shape has more than 2^62 elements");
    elements *= size;
  }
  graph.shapes.push_back(shape);
  return true;
}

// Reads a size entry. Operands are sizes, except for the operation `size`, whose operands are a value id and a dim.
bool read_size(GraphReader& reader, const JsonTree& tree) {
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root) || root.end < 2 || tree.nodes[1].kind != JsonKind::String)
    return report_graph_error(reader, root, "an entry of `sizes` is not [operation, operand, operand]");
  if (!check_capacity(reader, reader.graph.sizes.size(), root)) return false;
  const std::optional<SizeOp> op = find_size_op(tree.nodes[1].text);
  if (!op)
    return report_graph_error(reader, tree.nodes[1],
                              fmt::format("unknown operation on sizes `{}`", tree.nodes[1].text));
  SizeEntry entry{.op = *op, .a = {}, .b = {}, .traced = 0, .offset = static_cast<uint32_t>(root.offset)};
  GraphItems operands(tree, 0);
  operands.next();
  if (*op == SizeOp::Size) {
    uint32_t value = 0, dim = 0;
    if (!read_id(reader, tree, operands, value, "value of a size") ||
        !read_id(reader, tree, operands, dim, "dim of a size"))
      return false;
    entry.a.number = value;
    entry.b.number = dim;
  } else {
    SizeOperand* const both[] = {&entry.a, &entry.b};
    for (SizeOperand* operand : std::span(both).first(operands_of(*op))) {
      if (!operands.more())
        return report_graph_error(reader, root, fmt::format("`{}` has too few operands", tree.nodes[1].text));
      if (!read_operand(reader, tree, operands.next(), *operand)) return false;
    }
  }
  if (!expect_last_item(reader, tree, operands, "an entry of `sizes`")) return false;
  reader.graph.sizes.push_back(entry);
  return true;
}

bool read_value(GraphReader& reader, const JsonTree& tree) {
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root))
    return report_graph_error(reader, root, "an entry of `values` is not [shape, dtype, requires_grad]");
  if (!check_capacity(reader, reader.graph.values.size(), root)) return false;
  GraphItems parts(tree, 0);
  GraphValue value;
  if (!read_id(reader, tree, parts, value.shape, "shape") || !read_id(reader, tree, parts, value.dtype, "dtype") ||
      !read_flag(reader, tree, parts, value.requires_grad, "requires_grad") ||
      !expect_last_item(reader, tree, parts, "an entry of `values`"))
    return false;
  reader.graph.values.push_back(value);
  return true;
}

bool read_leaf(GraphReader& reader, const JsonTree& tree) {
  constexpr std::string_view kKinds[] = {"input", "param", "buffer", "constant"};
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root)) return report_graph_error(reader, root, "an entry of `leaves` is not [value, kind, path]");
  if (!check_capacity(reader, reader.graph.leaves.size(), root)) return false;
  GraphItems parts(tree, 0);
  GraphLeaf leaf{.value = 0, .kind = LeafKind::Input, .path = 0, .offset = static_cast<uint32_t>(root.offset)};
  if (!read_id(reader, tree, parts, leaf.value, "value")) return false;
  if (!parts.more()) return report_graph_error(reader, root, "a leaf has no kind");
  const JsonNode& kind = tree.nodes[parts.next()];
  const auto found = std::find(std::begin(kKinds), std::end(kKinds), kind.text);
  if (kind.kind != JsonKind::String || found == std::end(kKinds))
    return report_graph_error(reader, kind, "the kind of a leaf is not input, param, buffer or constant");
  leaf.kind = static_cast<LeafKind>(found - std::begin(kKinds));
  if (!read_id(reader, tree, parts, leaf.path, "path") ||
      !expect_last_item(reader, tree, parts, "an entry of `leaves`"))
    return false;
  reader.graph.leaves.push_back(leaf);
  return true;
}

bool read_guard(GraphReader& reader, const JsonTree& tree) {
  constexpr std::pair<std::string_view, GuardOp> kOps[] = {{"lt", GuardOp::Lt}, {"le", GuardOp::Le},
                                                           {"gt", GuardOp::Gt}, {"ge", GuardOp::Ge},
                                                           {"eq", GuardOp::Eq}, {"ne", GuardOp::Ne}};
  const JsonNode& root = tree.nodes[0];
  if (!is_array(root) || root.end < 2) return report_graph_error(reader, root, "an entry of `guards` is not a list");
  if (!check_capacity(reader, reader.graph.guards.size(), root)) return false;
  const auto row =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& op) { return op.first == tree.nodes[1].text; });
  if (row == std::end(kOps)) return report_graph_error(reader, tree.nodes[1], "unknown comparison of sizes");
  GraphGuard guard{.op = row->second, .a = {}, .b = {}, .held = true, .offset = static_cast<uint32_t>(root.offset)};
  GraphItems parts(tree, 0);
  parts.next();
  for (SizeOperand* operand : {&guard.a, &guard.b}) {
    if (!parts.more()) return report_graph_error(reader, root, "a comparison of sizes has too few operands");
    if (!read_operand(reader, tree, parts.next(), *operand)) return false;
  }
  if (!parts.more() || tree.nodes[parts.at].kind != JsonKind::Bool)
    return report_graph_error(reader, root, "a comparison of sizes has no result");
  guard.held = tree.nodes[parts.next()].is_true;
  if (!expect_last_item(reader, tree, parts, "an entry of `guards`")) return false;
  reader.graph.guards.push_back(guard);
  return true;
}

}  // namespace tpplan
