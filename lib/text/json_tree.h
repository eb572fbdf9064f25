// A JSON value as a flat tree in preorder.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"

namespace tpplan {

enum class JsonKind : uint8_t { Null, Bool, Integer, Number, String, Array, Object };

// One value in preorder: its children start at the next index and end before `end`.
struct JsonNode {
  JsonKind kind = JsonKind::Null;
  bool is_true = false;
  uint32_t end = 0;
  uint64_t offset = 0;      // offset of the value in the file
  uint64_t key_offset = 0;  // offset of the key's opening quote
  int64_t integer = 0;      // for an Integer; integers outside int64 are a Number
  std::string_view key;     // set if the parent is an object
  std::string_view text;    // String: the decoded text; Number: as written
};

struct JsonTree {
  FileId file = kNoFile;
  std::vector<JsonNode> nodes;  // nodes[0] is the root
  uint64_t end = 0;             // offset after the root
};

// Returns the position of a node's value or key. The span covers its first line.
[[nodiscard]] Span value_span(FileId file, const JsonNode& node);
[[nodiscard]] Span key_span(FileId file, const JsonNode& node);

// Returns the index of the child called `key` of the object at `parent`, or 0, which is never a child.
[[nodiscard]] uint32_t find_json_field(const JsonTree& tree, uint32_t parent, std::string_view key);

// Returns "an array", "a string" and so on, for messages.
[[nodiscard]] std::string_view json_kind_name(JsonKind kind);

}  // namespace tpplan
