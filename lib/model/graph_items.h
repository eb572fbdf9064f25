// Helpers shared by the readers of graph entries: a cursor over an entry, and error reporting.
#pragma once

#include <string>
#include <string_view>

#include "model/op_graph.h"
#include "text/json_reader.h"

namespace tpplan {

// State while a graph is read.
struct GraphReader {
  OpGraph& graph;
  FileId file;
  Diagnostics& diagnostics;
  bool failed = false;
};

// Cursor over the children of an array.
struct GraphItems {
  const JsonTree& tree;
  uint32_t at, end;
  GraphItems(const JsonTree& t, uint32_t parent) : tree(t), at(parent + 1), end(t.nodes[parent].end) {}
  bool more() const { return at < end; }
  uint32_t next() {
    const uint32_t child = at;
    at = tree.nodes[child].end;
    return child;
  }
};

[[nodiscard]] inline bool is_array(const JsonNode& node) { return node.kind == JsonKind::Array; }

// Reports TP2003 at `node` unless an error was reported before. Returns false, which ends the reading.
[[nodiscard]] bool report_graph_error(GraphReader& reader, const JsonNode& node, std::string message);

// True if one more entry may be added to `count` entries of its kind. Reports TP1007 otherwise.
[[nodiscard]] bool check_capacity(GraphReader& reader, size_t count, const JsonNode& node);

// Reads the next item as an id. `what` is its name in messages.
[[nodiscard]] bool read_id(GraphReader& reader, const JsonTree& tree, GraphItems& items, uint32_t& id,
                           std::string_view what);

// Reads the next item, which must be 0 or 1.
[[nodiscard]] bool read_flag(GraphReader& reader, const JsonTree& tree, GraphItems& items, bool& flag,
                             std::string_view what);

// Reports an error if the entry has more items than were read. `what` names the entry.
[[nodiscard]] bool expect_last_item(GraphReader& reader, const JsonTree& tree, const GraphItems& items,
                                    std::string_view what);

// Returns the value of an Integer or Number node as a double.
[[nodiscard]] double number_of(const JsonNode& node);

}  // namespace tpplan
