// State and helpers shared by the readers of a manifest: the manifest so far, its errors, and readers of single values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "base/string_index.h"
#include "diagnostics/diagnostics.h"
#include "manifest/manifest.h"
#include "text/json_reader.h"

namespace tpplan {

// One step of a parameter as written in the file. It is checked at the end, because FSDP's axis follows in the file.
struct FileStep {
  StepPart part{};
  Collective collective;
  uint64_t elements = 0, bytes = 0, sent = 0;
};

struct FileSteps {
  uint32_t layout = 0;  // into Manifest::layouts
  Span span;
  std::vector<FileStep> steps;
};

struct ManifestReader {
  Manifest& manifest;
  FileId file;
  Diagnostics& diagnostics;
  const std::string& text;  // of the file
  bool has_mesh = false;
  ManifestTotals written;
  Span totals_span;
  uint32_t largest_init = 0;  // the largest `init` index of the parameters, and its position
  Span init_span;
  Span step_span;
  Span digest_span;                             // of the field `digest`, key included
  std::string digest;                           // as written; empty if absent
  uint64_t digest_end = 0;                      // the offset after it
  std::vector<Span> rule_spans;                 // of each rule
  std::vector<Span> layout_spans;               // for each layout, the first parameter with it
  TextMap<std::string, uint32_t> layout_index;  // by the text after a parameter's path
  StringIndex paths;                            // of the parameters
  std::vector<bool> is_tied;
  TextSet<std::string> modules;  // rule and path of each module
  std::vector<FileSteps> steps;
};

// `report_error` reports an error and returns false. All readers below return false after they report an error.
bool report_error(ManifestReader& reader, Code code, Span span, std::string message);
bool report_error(ManifestReader& reader, Code code, const JsonNode& node, std::string message);

// Reports an unknown field of an object.
[[nodiscard]] bool report_unknown_field(ManifestReader& reader, Span span, std::string_view what, std::string_view name,
                                        std::span<const std::string_view> names);

[[nodiscard]] bool expect(ManifestReader& reader, const JsonNode& node, JsonKind kind, std::string_view what);

// True if the object has only fields in `names`; reports an error otherwise. `what` is the object's name.
[[nodiscard]] bool expect_only_fields(ManifestReader& reader, const JsonTree& tree, uint32_t object,
                                      std::string_view what, std::initializer_list<std::string_view> names);

// Returns the index of a required field. Reports an error and returns 0 if it is missing or of another kind.
[[nodiscard]] uint32_t required_field(ManifestReader& reader, const JsonTree& tree, uint32_t object,
                                      std::string_view key, JsonKind kind);

// True if the object has all these fields, whose values may be null; reports an error otherwise.
[[nodiscard]] bool has_fields(ManifestReader& reader, const JsonTree& tree, uint32_t object,
                              std::initializer_list<std::string_view> names);

// Finds an optional field. Sets `at` to 0 if it is absent or null, and reports an error if it is of another kind.
[[nodiscard]] bool optional_field(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key,
                                  JsonKind kind, uint32_t& at);

// Calls `visit(index)` for each child until one returns false.
template <typename Visit>
[[nodiscard]] bool for_each(const JsonTree& tree, uint32_t at, Visit visit) {
  for (uint32_t i = at + 1; i < tree.nodes[at].end; i = tree.nodes[i].end) {
    if (!visit(i)) return false;
  }
  return true;
}

[[nodiscard]] bool read_axis(ManifestReader& reader, const JsonNode& node, AxisId& axis);
// Reads a dim of a tensor or the position of an argument, which must fit an int.
[[nodiscard]] bool read_index(ManifestReader& reader, const JsonNode& node, int& index);
[[nodiscard]] bool read_collective_kind(ManifestReader& reader, const JsonNode& node, CollectiveKind& kind);
// Reads the fields of a collective.
[[nodiscard]] bool read_collective(ManifestReader& reader, const JsonTree& tree, uint32_t object,
                                   Collective& collective);

// Reads the dtypes in which values and gradients are sent, for a rule or for one value.
[[nodiscard]] bool read_sent_dtypes(ManifestReader& reader, const JsonTree& tree, uint32_t object,
                                    std::optional<DType>& forward, std::optional<DType>& backward);

// Reads the index of a rule. Leaves `rule` unchanged if the field is null.
[[nodiscard]] bool read_rule_index(ManifestReader& reader, const JsonTree& tree, uint32_t object, uint32_t& rule);

[[nodiscard]] bool read_sizes(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<int64_t>& sizes);
// Reads a list of names. `what` is the noun for one of them in messages, such as "path".
[[nodiscard]] bool read_names(ManifestReader& reader, const JsonTree& tree, uint32_t at,
                              std::vector<std::string>& names, std::string_view what);
// Reads placements. Leaves `placements` empty if the node is null.
[[nodiscard]] bool read_placements(ManifestReader& reader, const JsonTree& tree, uint32_t at,
                                   std::optional<std::vector<Placement>>& placements);

}  // namespace tpplan
