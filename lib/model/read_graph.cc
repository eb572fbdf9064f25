#include "model/read_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/graph_items.h"
#include "model/read_nodes.h"
#include "model/read_tables.h"

namespace tpplan {
namespace {

bool read_text_field(GraphReader& reader, const JsonTree& tree, std::string_view& text) {
  if (tree.nodes[0].kind != JsonKind::String)
    return report_graph_error(
        reader, tree.nodes[0],
        fmt::format("`{}` is {}, not a string", tree.nodes[0].key, json_kind_name(tree.nodes[0].kind)));
  text = tree.nodes[0].text;
  return true;
}

bool read_mode(GraphReader& reader, const JsonTree& tree) {
  if (!read_text_field(reader, tree, reader.graph.mode)) return false;
  return reader.graph.mode == "eval" || reader.graph.mode == "train" ||
         report_graph_error(reader, tree.nodes[0], "`mode` is neither eval nor train");
}

bool read_count_field(GraphReader& reader, const JsonTree& tree, int64_t& count) {
  if (tree.nodes[0].kind != JsonKind::Integer || tree.nodes[0].integer < 0)
    return report_graph_error(
        reader, tree.nodes[0],
        fmt::format("`{}` is {}, not a count", tree.nodes[0].key, json_kind_name(tree.nodes[0].kind)));
  count = tree.nodes[0].integer;
  return true;
}

// Reads one output value, or a list of them.
bool read_output(GraphReader& reader, const JsonTree& tree) {
  for (size_t i = is_array(tree.nodes[0]) ? 1 : 0; i < tree.nodes.size(); ++i) {
    const JsonNode& node = tree.nodes[i];
    if (node.kind != JsonKind::Integer || node.integer < 0 || node.integer >= kNoId)
      return report_graph_error(reader, node, "`output` is not the id of a value");
    reader.graph.outputs.push_back(static_cast<ValueId>(node.integer));
  }
  return true;
}

bool read_graph_rules(GraphReader& reader, const JsonTree& tree) {
  if (tree.nodes[0].kind != JsonKind::Object)
    return report_graph_error(reader, tree.nodes[0], "`rules` is not an object");
  for (GraphItems rules(tree, 0); rules.more();) {
    const JsonNode& rule = tree.nodes[rules.next()];
    if (rule.kind != JsonKind::String)
      return report_graph_error(reader, rule, "the rule of an operation is not a string");
    reader.graph.rules.emplace_back(rule.key, rule.text);
  }
  return true;
}

struct FieldReader {
  std::string_view key;
  JsonField mode;
  bool (*read)(GraphReader&, const JsonTree&);
};

// Readers of the fields, called in file order. Only `nodes` needs an earlier field, the names in `strings`. prove_graph
// checks all other references after the whole graph is read.
constexpr FieldReader kFields[] = {
    {"mode", JsonField::Whole, read_mode},
    {"attention", JsonField::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_text_field(r, t, r.graph.attention); }},
    {"experts", JsonField::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_text_field(r, t, r.graph.experts); }},
    {"dtype", JsonField::Whole, [](GraphReader& r, const JsonTree& t) { return read_text_field(r, t, r.graph.dtype); }},
    {"batch", JsonField::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_count_field(r, t, r.graph.batch); }},
    {"sequence", JsonField::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_count_field(r, t, r.graph.sequence); }},
    {"strings", JsonField::Elements, read_string},
    {"shapes", JsonField::Elements, read_shape},
    {"sizes", JsonField::Elements, read_size},
    {"values", JsonField::Elements, read_value},
    {"leaves", JsonField::Elements, read_leaf},
    {"nodes", JsonField::Elements, read_node},
    {"guards", JsonField::Elements, read_guard},
    {"output", JsonField::Whole, read_output},
    {"rules", JsonField::Whole, read_graph_rules},
};

const FieldReader* find_row(std::string_view key) {
  const auto* row =
      std::find_if(std::begin(kFields), std::end(kFields), [key](const FieldReader& r) { return r.key == key; });
  return row == std::end(kFields) ? nullptr : row;
}

}  // namespace

JsonVisitor graph_visitor(GraphReader& reader) {
  return {.member =
              [&reader](std::string_view key, Span span) {
                const FieldReader* row = find_row(key);
                if (row != nullptr) return row->mode;
                report_message(reader.diagnostics, Code::UnknownModelKey, span,
                               fmt::format("unknown key `{}` in the graph", key));
                return JsonField::Skip;
              },
          .value =
              [&reader](std::string_view key, const JsonTree& tree) {
                const FieldReader* row = find_row(key);
                const JsonNode& root = tree.nodes[0];
                if (row->mode == JsonField::Elements && !root.key.empty())
                  return report_graph_error(reader, root,
                                            fmt::format("`{}` is {}, not a list", key, json_kind_name(root.kind)));
                return row->read(reader, tree);
              }};
}

}  // namespace tpplan
