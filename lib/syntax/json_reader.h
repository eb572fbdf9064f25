// JSON as a stream of small trees: a document of a million entries is read without ever standing in memory as one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "syntax/json_tree.h"

namespace tpplan {

// What to do with a member of an object that is visited: hand it over whole, hand over each element of its array, visit
// its own members, or only check its syntax.
enum class JsonMember : uint8_t { Whole, Elements, Members, Skip };

// Sees one object of the document, member by member: the document itself, or one below it that was asked for by its
// Members.
struct JsonVisitor {
  // Asked at each key of the object, in file order.
  std::function<JsonMember(std::string_view key, Span key_span)> member;
  // The whole member, or with Elements each element of its array. Elements of what is no array and Members of what is
  // no object come whole; their root has a key, an element has none. Strings in the tree live as long as the file and
  // `strings`, the tree itself until the call returns. Returning false ends the reading.
  std::function<bool(std::string_view key, const JsonTree& tree)> value;
  // Sees the members of each member that is answered with Members; there must be one then.
  const JsonVisitor* inner = nullptr;
  // Of the document: what a file of this kind is like, for whoever gave an empty one.
  std::string_view kind_help = "the file starts with `{`";
};

struct JsonLimits {
  size_t depth = 64;
  size_t token_bytes = size_t{4} << 20;
  size_t bare_bytes =
      size_t{16} << 20;  // brackets, commas and blanks in a row: nlohmann keeps them until a text or number comes
  size_t keys_per_object = size_t{1} << 20;  // skipped objects too
  size_t tree_nodes = size_t{1} << 20;       // values in one tree that is handed over
};

// Reads `file`, which must hold one JSON object (RFC 8259, no byte order mark). Reports syntax errors, duplicate keys
// and exceeded limits with their places; returns false after any of them. `strings` keeps the decoded text of strings
// that are written with escapes.
[[nodiscard]] bool read_json(const SourceFile& file, const JsonVisitor& visitor, std::deque<std::string>& strings,
                             Diagnostics& diagnostics, const JsonLimits& limits = {});

}  // namespace tpplan
