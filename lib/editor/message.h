// One message of JSON-RPC 2.0, read.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "base/source_file.h"
#include "syntax/json_tree.h"
#include "syntax/json_writer.h"

namespace tpplan {

enum class RpcError : int {
  ParseError = -32700,
  InvalidRequest = -32600,
  MethodNotFound = -32601,
  InvalidParams = -32602,
  ServerNotInitialized = -32002
};

// The trees point into `file` and `strings`: a message stays where it is.
struct EditorMessage {
  SourceFile file;
  std::deque<std::string> strings;
  std::string method;   // empty: an answer, or nothing that has one
  JsonTree id, params;  // without nodes where there are none
  RpcError fault{};     // of what is no message
  std::string why;      // the fault in words; empty: it is one
};

// Reads `message.file`. False where it is no message, and `fault` says which kind of none.
[[nodiscard]] bool read_message(EditorMessage& message);

// The text of a member of an object; empty where there is none.
[[nodiscard]] std::string_view text_member(const JsonTree& tree, uint32_t parent, std::string_view key);

// The whole number of a member of an object, or `otherwise`.
[[nodiscard]] int64_t number_member(const JsonTree& tree, uint32_t parent, std::string_view key, int64_t otherwise);

// A number, a text or null, as it stands in the tree; null for a tree without nodes.
void write_id(JsonWriter& json, const JsonTree& id);

}  // namespace tpplan
