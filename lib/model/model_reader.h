// State shared by the readers of a model file: the graph so far, its errors, and entries that are resolved at the end.
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
#include "model/graph_tokens.h"
#include "model/model_graph.h"
#include "text/json_reader.h"

namespace tpplan {

// Granularity and segments entries of one parameter, to be resolved once its dim names are known.
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
  uint32_t last_type = 0;  // of the preceding module, which often has the same type
  StringIndex shape_index;
  std::vector<std::pair<uint32_t, uint8_t>> shapes;  // different shapes: begin in ModelGraph::sizes, number of dims
  std::vector<PendingDims> pending;
  std::vector<std::pair<std::vector<std::string_view>, uint32_t>> ties;  // names, and the offset of the group
  std::vector<GraphLine> graph_lines;                                    // of a graph in text notation
  size_t tied_names = 0;
  size_t faults = 0;
  bool is_another_file = false;  // by its `format`; the rest of the file is ignored then
};

// True if so many errors were reported that reading should stop.
[[nodiscard]] bool too_many_errors(const ModelReader& reader);

void report_error(ModelReader& reader, Code code, Span span, std::string message, std::string help = {});
void report_error(ModelReader& reader, Code code, const JsonNode& node, std::string message, std::string help = {});

// Reports that `node` is not of kind `kind`. Returns false.
bool report_wrong_kind(ModelReader& reader, const JsonNode& node, JsonKind kind, std::string_view what);

// True if the node is of kind `kind`; reports an error otherwise.
[[nodiscard]] inline bool expect(ModelReader& reader, const JsonNode& node, JsonKind kind, std::string_view what) {
  return node.kind == kind || report_wrong_kind(reader, node, kind, what);
}

// True if the name is not too long; reports an error otherwise.
[[nodiscard]] bool check_length(ModelReader& reader, std::string_view text, Span span);

void warn_unknown_key(ModelReader& reader, std::string_view where, std::string_view key, Span span,
                      std::span<const std::string_view> known);

// Returns one child index for each of `keys`, 0 if the object lacks the key. Warns about other keys.
template <size_t N>
[[nodiscard]] std::array<uint32_t, N> find_json_fields(ModelReader& reader, const JsonTree& tree, uint32_t object,
                                                       std::string_view where, const std::string_view (&keys)[N]) {
  std::array<uint32_t, N> members{};
  size_t next = 0;  // starts at the preceding key, because most files have the order of `keys`
  for (uint32_t i = object + 1; i < tree.nodes[object].end; i = tree.nodes[i].end) {
    size_t tried = 0;
    while (tried < N && keys[next] != tree.nodes[i].key) {
      next = next + 1 == N ? 0 : next + 1;
      ++tried;
    }
    if (tried < N)
      members[next] = i;
    else
      warn_unknown_key(reader, where, tree.nodes[i].key, key_span(reader.graph.file, tree.nodes[i]), keys);
  }
  return members;
}

}  // namespace tpplan
