// Parses a message of JSON-RPC 2.0.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "base/source_file.h"
#include "text/json_tree.h"
#include "text/json_writer.h"

namespace tpplan {

enum class RpcError : int {
  ParseError = -32700,
  InvalidRequest = -32600,
  MethodNotFound = -32601,
  InvalidParams = -32602,
  ServerNotInitialized = -32002
};

// A parsed message. It must not move, because the trees point into `file` and `strings`.
struct EditorMessage {
  SourceFile file;
  std::deque<std::string> strings;
  std::string method;   // empty for a response or an invalid message
  JsonTree id, params;  // without nodes if missing
  RpcError fault{};     // the error code of an invalid message
  std::string why;      // the error text; empty for a valid message
};

// Parses message.file. Returns false if it is not a valid message, and sets message.fault and message.why.
[[nodiscard]] bool read_message(EditorMessage& message);

// Returns the text of an object's field; empty if it does not exist or is not a string.
[[nodiscard]] std::string_view string_field(const JsonTree& tree, uint32_t parent, std::string_view key);

// Returns the integer of an object's field, or `otherwise` if it does not exist or is not an integer.
[[nodiscard]] int64_t number_field(const JsonTree& tree, uint32_t parent, std::string_view key, int64_t otherwise);

// Writes a message id as it is in the tree: a number, a string or null. Writes null for an empty tree.
void write_id(JsonWriter& json, const JsonTree& id);

}  // namespace tpplan
