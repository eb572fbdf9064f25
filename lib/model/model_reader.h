// What the readers of a model's parts share: the graph so far, its faults, and what waits until everything is read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/string_index.h"
#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "syntax/json_reader.h"

namespace tpplan {

// A granularity or segments entry waits for the dim names, which may come from the table.
struct PendingDims {
  uint32_t extras;
  ParamId param;  // into ModelGraph::params, or buffers
  bool is_buffer;
  std::vector<std::tuple<std::string_view, std::vector<int64_t>, uint64_t>> segments;  // dim name, sizes, offset
  std::vector<std::tuple<std::string_view, int64_t, uint64_t>> granularity;
};

struct ModelReader {
  ModelGraph& graph;
  std::string_view text;  // of the file
  Diagnostics& diagnostics;
  StringIndex type_index;
  std::vector<PendingDims> pending;
  std::vector<std::pair<std::vector<std::string_view>, uint32_t>> ties;  // names, and the group's offset
  size_t tied_names = 0;
  size_t faults = 0;
  bool is_another_file = false;  // by its format: what else it says is no matter then
};

// There is no use in going on.
[[nodiscard]] bool too_many_faults(const ModelReader& reader);

void fault(ModelReader& reader, Code code, Span span, std::string message, std::string help = {});
void fault(ModelReader& reader, Code code, const JsonNode& node, std::string message, std::string help = {});

// Says what was found instead of `kind`. Returns false.
bool report_kind(ModelReader& reader, const JsonNode& node, JsonKind kind, std::string_view what);

// True when the node is of the kind; otherwise says what was found.
[[nodiscard]] inline bool expect(ModelReader& reader, const JsonNode& node, JsonKind kind, std::string_view what) {
  return node.kind == kind || report_kind(reader, node, kind, what);
}

// False after reporting a name that is too long.
[[nodiscard]] bool good_length(ModelReader& reader, std::string_view text, Span span);

void warn_unknown_key(ModelReader& reader, std::string_view where, std::string_view key, Span span,
                      std::span<const std::string_view> known);

// The indices of an object's members, one for each of `keys`, 0 where there is none. Warns of other keys.
template <size_t N>
[[nodiscard]] std::array<uint32_t, N> find_members(ModelReader& reader, const JsonTree& tree, uint32_t object,
                                                   std::string_view where, const std::string_view (&keys)[N]) {
  std::array<uint32_t, N> members{};
  for (uint32_t i = object + 1; i < tree.nodes[object].end; i = tree.nodes[i].end) {
    const auto key = std::find(std::begin(keys), std::end(keys), tree.nodes[i].key);
    if (key != std::end(keys))
      members[static_cast<size_t>(key - std::begin(keys))] = i;
    else
      warn_unknown_key(reader, where, tree.nodes[i].key, key_span(reader.graph.file, tree.nodes[i]), keys);
  }
  return members;
}

}  // namespace tpplan
