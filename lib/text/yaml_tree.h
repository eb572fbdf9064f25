// A YAML document as a flat tree with the position of every key and value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"

namespace tpplan {

enum class YamlKind : uint8_t { Null, Scalar, Sequence, Map };

using YamlId = uint32_t;
inline constexpr YamlId kNoYaml = 0xffffffffu;

struct YamlNode {
  YamlKind kind = YamlKind::Null;
  bool is_plain = false;         // a scalar without quotes
  uint64_t offset = 0;           // position in the file
  uint32_t length = 0;           // bytes of a scalar in the file; 1 for other nodes
  uint32_t line = 0;             // from 1
  std::string text;              // set for scalars
  std::vector<YamlId> children;  // Sequence: the items; Map: key, value, key, value, ...
};

// A document. `root` is kNoYaml if the file has none. An alias has the id of its anchor's node, so nodes may be shared,
// but never form a cycle.
struct YamlTree {
  FileId file = kNoFile;
  std::vector<YamlNode> nodes;
  YamlId root = kNoYaml;
};

struct YamlLimits {
  size_t bytes = size_t{8} << 20;
  size_t depth = 64;
  size_t nodes = 500'000;              // an alias counts as the nodes of its anchor
  size_t pending = size_t{128} << 10;  // punctuation scanned without a parser event: brackets, commas, colons and
                                       // dashes; a quote counts 1/16
};

// Reads the single YAML document in `file`. Returns false after reporting any of these errors:
// - invalid UTF-8, or a byte order mark
// - a syntax error, a second document, or text after the document
// - a duplicate key, or a key that is not a scalar
// - a tag other than YAML's core tags, a merge key, or a recursive alias
// - an exceeded limit
[[nodiscard]] bool read_yaml(const SourceFile& file, YamlTree& tree, Diagnostics& diagnostics,
                             const YamlLimits& limits = {});

[[nodiscard]] Span span_of(FileId file, const YamlNode& node);

// Returns "a mapping", "a list", "null" or a noun for the scalar, for messages.
[[nodiscard]] std::string describe(const YamlNode& node);

}  // namespace tpplan
