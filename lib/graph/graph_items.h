// What readers of the graph's entries share: a cursor over an entry, and how a fault is said.
#pragma once

#include <string>
#include <string_view>

#include "graph/read_graph.h"

namespace tpplan {

// A cursor over a small tree: the next child of an array.
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

// Reports TP2003 at `node`, the first time only: the reading ends with it. Returns false.
[[nodiscard]] bool graph_fault(GraphReader& reader, const JsonNode& node, std::string message);

// Whether one entry more may join `count` of its kind; reports TP1007 otherwise.
[[nodiscard]] bool has_room(GraphReader& reader, size_t count, const JsonNode& node);

// The next item as an id; `what` is its name for people.
[[nodiscard]] bool read_id(GraphReader& reader, const JsonTree& tree, GraphItems& items, uint32_t& id,
                           std::string_view what);

// The next item, which is 0 or 1.
[[nodiscard]] bool read_flag(GraphReader& reader, const JsonTree& tree, GraphItems& items, bool& flag,
                             std::string_view what);

// That nothing stands behind the items that were read: an entry has as many parts as it needs. `what` is the entry.
[[nodiscard]] bool no_more(GraphReader& reader, const JsonTree& tree, const GraphItems& items, std::string_view what);

// An Integer, or a Number as it is written.
[[nodiscard]] double number_of(const JsonNode& node);

}  // namespace tpplan
