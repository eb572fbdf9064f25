// A YAML document as a flat tree that knows the place of every key and value.
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
  uint64_t offset = 0;           // first byte in the file
  uint32_t length = 0;           // bytes in the file, for scalars; 1 otherwise
  uint32_t line = 0;             // from 1
  std::string text;              // scalars
  std::vector<YamlId> children;  // Sequence: the items; Map: key, value, key, value, ...
};

// `root` is kNoYaml when the file holds no document. An alias stands for the node it names: children may be shared, but
// never form a cycle.
struct YamlTree {
  FileId file = kNoFile;
  std::vector<YamlNode> nodes;
  YamlId root = kNoYaml;
};

struct YamlLimits {
  size_t bytes = size_t{8} << 20;
  size_t depth = 64;
  size_t nodes = 500'000;              // aliases count as what they stand for
  size_t pending = size_t{128} << 10;  // brackets, commas, colons, dashes, and sixteenths of quotes, that may be read
                                       // before they come to something
};

// Reads the single YAML document in `file`. Reports: text that is no UTF-8, byte order marks, syntax, a second document
// and text after the document, duplicate keys, keys that are not scalars, tags beyond YAML's core ones, merge keys,
// aliases that hold themselves, exceeded limits. Returns false when anything was reported.
[[nodiscard]] bool read_yaml(const SourceFile& file, YamlTree& tree, Diagnostics& diagnostics,
                             const YamlLimits& limits = {});

[[nodiscard]] Span span_of(FileId file, const YamlNode& node);

// "a mapping", "a list", "null", "a plain scalar" for messages.
[[nodiscard]] std::string describe(const YamlNode& node);

}  // namespace tpplan
