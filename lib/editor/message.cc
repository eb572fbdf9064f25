#include "editor/message.h"

#include "editor/frames.h"
#include "text/json_reader.h"

namespace tpplan {

bool read_message(EditorMessage& message) {
  const JsonVisitor visitor{.member =
                                [](std::string_view key, Span) {
                                  return key == "id" || key == "method" || key == "params" ? JsonField::Whole
                                                                                           : JsonField::Skip;
                                },
                            .value =
                                [&message](std::string_view key, const JsonTree& tree) {
                                  if (key == "id") message.id = tree;
                                  if (key == "params") message.params = tree;
                                  if (key == "method" && tree.nodes[0].kind == JsonKind::String)
                                    message.method = tree.nodes[0].text;
                                  return true;
                                }};
  JsonLimits limits;
  limits.token_bytes = kMaxMessageBytes;
  Diagnostics diagnostics;
  const size_t first = message.file.text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && message.file.text[first] == '[') {
    message.fault = RpcError::InvalidRequest;
    message.why = "batches are not supported: send one message at a time";
  } else if (!read_json(message.file, visitor, message.strings, diagnostics, limits)) {
    message.id = {};
    message.fault = RpcError::ParseError;
    message.why = diagnostics.list.empty() ? "the message is not JSON" : diagnostics.list.front().message;
  } else if (!message.id.nodes.empty() && message.id.nodes[0].kind != JsonKind::Null &&
             message.id.nodes[0].kind != JsonKind::Integer && message.id.nodes[0].kind != JsonKind::Number &&
             message.id.nodes[0].kind != JsonKind::String) {
    message.id = {};
    message.fault = RpcError::InvalidRequest;
    message.why = "`id` must be a number or a string";
  }
  return message.why.empty();
}

std::string_view string_field(const JsonTree& tree, uint32_t parent, std::string_view key) {
  if (tree.nodes.size() <= parent || tree.nodes[parent].kind != JsonKind::Object) return {};
  const uint32_t at = find_json_field(tree, parent, key);
  return at != 0 && tree.nodes[at].kind == JsonKind::String ? tree.nodes[at].text : std::string_view{};
}

int64_t number_field(const JsonTree& tree, uint32_t parent, std::string_view key, int64_t otherwise) {
  if (tree.nodes.size() <= parent || tree.nodes[parent].kind != JsonKind::Object) return otherwise;
  const uint32_t at = find_json_field(tree, parent, key);
  return at != 0 && tree.nodes[at].kind == JsonKind::Integer ? tree.nodes[at].integer : otherwise;
}

void write_id(JsonWriter& json, const JsonTree& id) {
  if (id.nodes.empty() || id.nodes[0].kind == JsonKind::Null) return write_value(json, nullptr);
  const JsonNode& node = id.nodes[0];
  if (node.kind == JsonKind::String) return write_value(json, node.text);
  if (node.kind == JsonKind::Integer) return write_value(json, node.integer);
  write_json(json, node.text);
}

}  // namespace tpplan
