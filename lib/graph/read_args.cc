#include "graph/read_args.h"

#include <spdlog/fmt/fmt.h>

#include <limits>

#include "graph/graph_items.h"

namespace tpplan {
namespace {

GraphArg& push_arg(GraphReader& reader, ArgKind kind) {
  GraphArg& arg = reader.graph.args.emplace_back();
  arg.kind = kind;
  arg.end = static_cast<uint32_t>(reader.graph.args.size());
  return arg;
}

uint32_t keep_text(GraphReader& reader, std::string_view text) {
  reader.graph.texts.push_back(text);
  return static_cast<uint32_t>(reader.graph.texts.size() - 1);
}

// The argument itself stands before its parts, and learns where they end when they have been read.
bool read_parts(GraphReader& reader, const JsonTree& tree, uint32_t at, ArgKind kind) {
  const size_t index = reader.graph.args.size();
  push_arg(reader, kind);
  GraphItems parts(tree, at);
  parts.next();  // the tag
  while (parts.more()) {
    if (!read_arg(reader, tree, parts.next())) return false;
  }
  reader.graph.args[index].end = static_cast<uint32_t>(reader.graph.args.size());
  return true;
}

bool read_tagged(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& root = tree.nodes[at];
  const JsonNode& tag = tree.nodes[at + 1];
  const JsonNode* part = root.end > at + 2 ? &tree.nodes[at + 2] : nullptr;
  const bool is_text = part != nullptr && part->kind == JsonKind::String;
  const bool is_number = part != nullptr && (part->kind == JsonKind::Integer || part->kind == JsonKind::Number);
  if (tag.text == "t") return read_parts(reader, tree, at, ArgKind::Tuple);
  if (tag.text == "s") {
    const size_t index = reader.graph.args.size();
    if (!read_parts(reader, tree, at, ArgKind::Slice)) return false;
    size_t parts = 0;
    for (uint32_t i = static_cast<uint32_t>(index) + 1; i < reader.graph.args.size(); i = reader.graph.args[i].end)
      ++parts;
    return parts == 3 || graph_fault(reader, root, "a slice has three parts");
  }
  if (tag.text == "x") return push_arg(reader, ArgKind::Ellipsis), true;
  if (tag.text == "e" && part != nullptr && part->kind == JsonKind::Integer && part->integer >= 0 &&
      part->integer < kNoId) {
    push_arg(reader, ArgKind::Size).id = static_cast<uint32_t>(part->integer);
    return true;
  }
  if (tag.text == "d" && is_text) return push_arg(reader, ArgKind::TypeName).id = keep_text(reader, part->text), true;
  if (tag.text == "f" && is_text) {
    GraphArg& arg = push_arg(reader, ArgKind::Float);
    arg.id = keep_text(reader, part->text);
    arg.number = part->text == "inf"    ? std::numeric_limits<double>::infinity()
                 : part->text == "-inf" ? -std::numeric_limits<double>::infinity()
                                        : std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (tag.text == "h" && (is_number || (part != nullptr && part->kind == JsonKind::Bool))) {
    push_arg(reader, ArgKind::Host).number = is_number ? number_of(*part) : part->is_true;
    return true;
  }
  if (tag.text == "o" && is_text) return push_arg(reader, ArgKind::Other).id = keep_text(reader, part->text), true;
  return graph_fault(reader, root, fmt::format("`[\"{}\", ...]` is no argument", tag.text));
}

}  // namespace

bool read_arg(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& node = tree.nodes[at];
  if (!has_room(reader, reader.graph.args.size(), node)) return false;
  switch (node.kind) {
    case JsonKind::Null:
      push_arg(reader, ArgKind::None);
      return true;
    case JsonKind::Bool: {
      GraphArg& arg = push_arg(reader, ArgKind::Bool);
      arg.integer = node.is_true;
      arg.number = node.is_true;
      return true;
    }
    case JsonKind::Integer: {
      GraphArg& arg = push_arg(reader, ArgKind::Int);
      arg.integer = node.integer;
      arg.number = static_cast<double>(node.integer);
      return true;
    }
    case JsonKind::Number:
      push_arg(reader, ArgKind::Number).number = number_of(node);
      return true;
    case JsonKind::String:
      push_arg(reader, ArgKind::Text).id = keep_text(reader, node.text);
      return true;
    case JsonKind::Array:
      if (node.end == at + 2 && tree.nodes[at + 1].kind == JsonKind::Integer) {
        const int64_t id = tree.nodes[at + 1].integer;
        if (id < 0 || id >= kNoId) return graph_fault(reader, node, "an argument is no id of a value");
        push_arg(reader, ArgKind::Value).id = static_cast<uint32_t>(id);
        return true;
      }
      if (node.end > at + 1 && tree.nodes[at + 1].kind == JsonKind::String) return read_tagged(reader, tree, at);
      [[fallthrough]];
    case JsonKind::Object:
      break;
  }
  return graph_fault(reader, node, "an argument of the graph is of no known form");
}

}  // namespace tpplan
