#include "text/json_tree.h"

#include <algorithm>
#include <string>

namespace tpplan {

Span value_span(FileId file, const JsonNode& node) {
  const size_t quotes = node.kind == JsonKind::String ? 2 : 0;
  const size_t length =
      node.kind == JsonKind::Integer ? std::to_string(node.integer).size() : node.text.size() + quotes;
  return {file, node.offset, static_cast<uint32_t>(std::max<size_t>(1, length))};
}

Span key_span(FileId file, const JsonNode& node) {
  return {file, node.key_offset, static_cast<uint32_t>(node.key.size() + 2)};
}

uint32_t find_json_field(const JsonTree& tree, uint32_t parent, std::string_view key) {
  for (uint32_t i = parent + 1; i < tree.nodes[parent].end; i = tree.nodes[i].end) {
    if (tree.nodes[i].key == key) return i;
  }
  return 0;
}

std::string_view json_kind_name(JsonKind kind) {
  switch (kind) {
    case JsonKind::Null:
      return "null";
    case JsonKind::Bool:
      return "a boolean";
    case JsonKind::Integer:
      return "a whole number";
    case JsonKind::Number:
      return "a number that is not a whole number below 2^63";
    case JsonKind::String:
      return "a string";
    case JsonKind::Array:
      return "an array";
    case JsonKind::Object:
      return "an object";
  }
  return "a value";
}

}  // namespace tpplan
