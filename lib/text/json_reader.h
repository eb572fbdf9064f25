// Reads JSON as a stream of small trees, so that a document of a million entries is never in memory as one tree.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "text/json_tree.h"

namespace tpplan {

// How to read a field of a visited object: pass it as one tree, pass each element of its array, visit its fields (of an
// array: pass each element), or only check its syntax.
enum class JsonField : uint8_t { Whole, Elements, Fields, Skip };

// Visits one object field by field: the document, or an object whose key was answered with JsonField::Fields.
struct JsonVisitor {
  // Called for each key of the object in file order. Returns how to read its value.
  std::function<JsonField(std::string_view key, Span key_span)> member;
  // Receives the value, or with Elements and Members each element of its array. A value that is not an array
  // (Elements), and neither an array nor an object (Members), is passed as one tree; its root has a key, an element's
  // root has none. Strings in the tree live as long as the file and `strings`, the tree until the call returns.
  // Returning false ends the reading.
  std::function<bool(std::string_view key, const JsonTree& tree)> value;
  // Visits the fields of each value whose key was answered with Members. @pre not nullptr if any was.
  const JsonVisitor* inner = nullptr;
  // Help for an empty file: how a file of this kind starts. Only the document's visitor needs it.
  std::string_view kind_help = "start the file with `{`";
};

struct JsonLimits {
  size_t depth = 64;
  size_t token_bytes = size_t{4} << 20;
  size_t bare_bytes =
      size_t{16} << 20;  // consecutive punctuation and blanks, which nlohmann buffers until the next text or number
  size_t keys_per_object = size_t{1} << 20;  // applies to skipped objects too
  size_t tree_nodes = size_t{1} << 20;       // values in one tree
};

// Reads `file`, which must contain one JSON object (RFC 8259, no byte order mark). Reports syntax errors, duplicate
// keys and exceeded limits with their positions, and returns false after any of them. `strings` owns the decoded text
// of strings with escapes.
[[nodiscard]] bool read_json(const SourceFile& file, const JsonVisitor& visitor, std::deque<std::string>& strings,
                             Diagnostics& diagnostics, const JsonLimits& limits = {});

}  // namespace tpplan
