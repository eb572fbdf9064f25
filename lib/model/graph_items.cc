#include "model/graph_items.h"

#include <spdlog/fmt/fmt.h>

#include <charconv>

namespace tpplan {

// Reports only the first error of a graph. Entries refer to each other by index, so one wrong entry causes many errors.
bool report_graph_error(GraphReader& reader, const JsonNode& node, std::string message) {
  if (!reader.failed) {
    report_message(reader.diagnostics, Code::InvalidModelValue, {reader.file, node.offset, 1}, std::move(message),
                   "export the graph again: python -m tpplan.export");
  }
  reader.failed = true;
  return false;
}

// Checks only the range of an id. Its table may follow in the file, so prove_graph checks that the entry exists.
bool read_id(GraphReader& reader, const JsonTree& tree, GraphItems& items, uint32_t& id, std::string_view what) {
  if (!items.more())
    return report_graph_error(reader, tree.nodes[0], fmt::format("an entry of the graph has no {}", what));
  const JsonNode& node = tree.nodes[items.next()];
  if (node.kind != JsonKind::Integer || node.integer < 0 || node.integer >= kNoId)
    return report_graph_error(reader, node,
                              fmt::format("{} of the graph is {}, not an id", what, json_kind_name(node.kind)));
  id = static_cast<uint32_t>(node.integer);
  return true;
}

bool read_flag(GraphReader& reader, const JsonTree& tree, GraphItems& items, bool& flag, std::string_view what) {
  const uint32_t at = items.at;
  uint32_t number = 0;
  if (!read_id(reader, tree, items, number, what)) return false;
  if (number > 1)
    return report_graph_error(reader, tree.nodes[at], fmt::format("{} of the graph is neither 0 nor 1", what));
  flag = number != 0;
  return true;
}

bool expect_last_item(GraphReader& reader, const JsonTree& tree, const GraphItems& items, std::string_view what) {
  return !items.more() ||
         report_graph_error(reader, tree.nodes[items.at], fmt::format("{} of the graph has too many elements", what));
}

bool check_capacity(GraphReader& reader, size_t count, const JsonNode& node) {
  if (count < kMaxGraphEntries) return true;
  if (!reader.failed)
    report_message(reader.diagnostics, Code::NestingTooDeep, {reader.file, node.offset, 1},
                   fmt::format("the graph has more than {} entries of one kind", kMaxGraphEntries));
  reader.failed = true;
  return false;
}

// Uses from_chars because strtod depends on the locale. The JSON reader has checked the syntax, so the only possible
// error is underflow, which yields 0.
double number_of(const JsonNode& node) {
  if (node.kind == JsonKind::Integer) return static_cast<double>(node.integer);
  double value = 0;
  std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  return value;
}

}  // namespace tpplan
