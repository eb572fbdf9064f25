// Reader of the JSON formats of specs: a mesh, and an object of lists by path.
#pragma once

#include <string_view>

#include "emit/read_specs.h"
#include "text/json_reader.h"

namespace tpplan {

struct JsonSpecsLayout {
  std::string_view sizes, names;  // keys of `mesh`: two lists of one length
  std::string_view parameters;    // key of the lists
  // Reads the list at `at` into a spec.
  bool (*read_entries)(const JsonTree& tree, uint32_t at, const Mesh& mesh, NamedSpec& named, Diagnostics& diagnostics);
};

[[nodiscard]] bool read_json_specs(const SourceFile& file, const JsonSpecsLayout& layout, SpecsFile& specs,
                                   Diagnostics& diagnostics);

// Returns false after reporting a value of another kind.
[[nodiscard]] bool expect_json_kind(FileId file, const JsonNode& node, JsonKind kind, std::string_view what,
                                    Diagnostics& diagnostics);

}  // namespace tpplan
