// What the readers of a manifest's members share: the manifest so far, its faults, and the reading of single values.
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
#include "syntax/json_reader.h"

namespace tpplan {

// The steps of a parameter as they are written, to be proven when FSDP's axis is known, which stands behind them.
struct WrittenStep {
  StepPart part{};
  Collective collective;
  uint64_t elements = 0, bytes = 0, sent = 0;
};

struct WrittenSteps {
  uint32_t layout = 0;  // into Manifest::layouts
  Span span;
  std::vector<WrittenStep> steps;
};

struct ManifestReader {
  Manifest& manifest;
  FileId file;
  Diagnostics& diagnostics;
  const std::string& text;  // of the file
  bool has_mesh = false;
  ManifestTotals written;
  Span totals_span;
  uint32_t largest_init = 0;  // that a parameter names, and where it does
  Span init_span;
  Span step_span;
  Span digest_span;                             // of `digest`, from its key on
  std::string digest;                           // as it is written; empty: it is absent
  uint64_t digest_end = 0;                      // the byte behind it
  std::vector<Span> rule_spans;                 // of each rule
  std::vector<Span> layout_spans;               // of each layout: the first parameter that has it
  TextMap<std::string, uint32_t> layout_index;  // by the text behind a parameter's path
  StringIndex paths;                            // of the parameters
  std::vector<bool> is_tied;
  TextSet<std::string> modules;  // rule and path of each
  std::vector<WrittenSteps> steps;
};

// All that read return false after reporting what is wrong. So does fault, always.
bool fault(ManifestReader& reader, Code code, Span span, std::string message);
bool fault(ManifestReader& reader, Code code, const JsonNode& node, std::string message);

// Reports a member that its object does not have.
[[nodiscard]] bool unknown_member(ManifestReader& reader, Span span, std::string_view what, std::string_view name,
                                  std::span<const std::string_view> names);

[[nodiscard]] bool expect(ManifestReader& reader, const JsonNode& node, JsonKind kind, std::string_view what);

// True when the object has no members but these; `what` is the object's name.
[[nodiscard]] bool only(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view what,
                        std::initializer_list<std::string_view> names);

// The member of an object, of this kind; 0 after reporting that it is not.
[[nodiscard]] uint32_t member(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key,
                              JsonKind kind);

// A member that may be absent or null (`at` is 0 then), and is of this kind otherwise.
[[nodiscard]] bool optional_member(ManifestReader& reader, const JsonTree& tree, uint32_t object, std::string_view key,
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
// A dim of a tensor, or the place of an argument: a number that an int holds.
[[nodiscard]] bool read_index(ManifestReader& reader, const JsonNode& node, int& index);
[[nodiscard]] bool read_collective_kind(ManifestReader& reader, const JsonNode& node, CollectiveKind& kind);
// The members of a collective.
[[nodiscard]] bool read_collective(ManifestReader& reader, const JsonTree& tree, uint32_t object,
                                   Collective& collective);

// The types in which a rule's values and gradients are sent, or those of one value.
[[nodiscard]] bool read_sent_dtypes(ManifestReader& reader, const JsonTree& tree, uint32_t object,
                                    std::optional<DType>& forward, std::optional<DType>& backward);

// The index of a rule of the manifest, left alone where it is null.
[[nodiscard]] bool read_rule_index(ManifestReader& reader, const JsonTree& tree, uint32_t object, uint32_t& rule);

[[nodiscard]] bool read_sizes(ManifestReader& reader, const JsonTree& tree, uint32_t at, std::vector<int64_t>& sizes);
// `what` is one of the names: "path".
[[nodiscard]] bool read_names(ManifestReader& reader, const JsonTree& tree, uint32_t at,
                              std::vector<std::string>& names, std::string_view what);
// Absent where it is null.
[[nodiscard]] bool read_placements(ManifestReader& reader, const JsonTree& tree, uint32_t at,
                                   std::optional<std::vector<Placement>>& placements);

}  // namespace tpplan
