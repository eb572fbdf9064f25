#include "graph/graph_items.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>

namespace tpplan {

constexpr size_t kMaxEntries = size_t{8} << 20;  // of one kind: a model of a thousand layers has some ten thousand

// One finding a graph: entries speak of each other by number, so that one wrong entry makes many later ones wrong.
bool graph_fault(GraphReader& reader, const JsonNode& node, std::string message) {
  if (!reader.failed) {
    report_message(reader.diagnostics, Code::TP2003, {reader.file, node.offset, 1}, std::move(message),
                   "write the graph again: python -m tpplan.export");
  }
  reader.failed = true;
  return false;
}

// Only the range of an id is looked at here. That it names something is prove_graph's: the table that it points into
// may stand behind this entry.
bool read_id(GraphReader& reader, const JsonTree& tree, GraphItems& items, uint32_t& id, std::string_view what) {
  if (!items.more()) return graph_fault(reader, tree.nodes[0], fmt::format("an entry of the graph lacks its {}", what));
  const JsonNode& node = tree.nodes[items.next()];
  if (node.kind != JsonKind::Integer || node.integer < 0 || node.integer >= kNoId)
    return graph_fault(reader, node, fmt::format("{} of the graph is {}, not an id", what, json_kind_name(node.kind)));
  id = static_cast<uint32_t>(node.integer);
  return true;
}

bool read_flag(GraphReader& reader, const JsonTree& tree, GraphItems& items, bool& flag, std::string_view what) {
  const uint32_t at = items.at;
  uint32_t number = 0;
  if (!read_id(reader, tree, items, number, what)) return false;
  if (number > 1) return graph_fault(reader, tree.nodes[at], fmt::format("{} of the graph is neither 0 nor 1", what));
  flag = number != 0;
  return true;
}

bool no_more(GraphReader& reader, const JsonTree& tree, const GraphItems& items, std::string_view what) {
  return !items.more() ||
         graph_fault(reader, tree.nodes[items.at], fmt::format("{} of the graph has a part too many", what));
}

bool has_room(GraphReader& reader, size_t count, const JsonNode& node) {
  if (count < kMaxEntries) return true;
  if (!reader.failed)
    report_message(reader.diagnostics, Code::TP1007, {reader.file, node.offset, 1},
                   fmt::format("the graph has more than {} entries of one kind", kMaxEntries));
  reader.failed = true;
  return false;
}

// from_chars, for strtod would read the decimal point of the locale. The JSON reader has proven the form, so that no
// error is left but a number too small for a double, which stays 0.
double number_of(const JsonNode& node) {
  if (node.kind == JsonKind::Integer) return static_cast<double>(node.integer);
  double value = 0;
  std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  return value;
}

}  // namespace tpplan
