#include "model/read_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/graph_items.h"
#include "model/read_nodes.h"
#include "model/read_tables.h"

namespace tpplan {
namespace {

bool read_text_member(GraphReader& reader, const JsonTree& tree, std::string_view& text) {
  if (tree.nodes[0].kind != JsonKind::String)
    return graph_error(reader, tree.nodes[0],
                       fmt::format("`{}` is {}, not a string", tree.nodes[0].key, json_kind_name(tree.nodes[0].kind)));
  text = tree.nodes[0].text;
  return true;
}

bool read_mode(GraphReader& reader, const JsonTree& tree) {
  if (!read_text_member(reader, tree, reader.graph.mode)) return false;
  return reader.graph.mode == "eval" || reader.graph.mode == "train" ||
         graph_error(reader, tree.nodes[0], "`mode` is neither eval nor train");
}

bool read_count_member(GraphReader& reader, const JsonTree& tree, int64_t& count) {
  if (tree.nodes[0].kind != JsonKind::Integer || tree.nodes[0].integer < 0)
    return graph_error(reader, tree.nodes[0],
                       fmt::format("`{}` is {}, not a count", tree.nodes[0].key, json_kind_name(tree.nodes[0].kind)));
  count = tree.nodes[0].integer;
  return true;
}

// Reads one output value, or a list of them.
bool read_output(GraphReader& reader, const JsonTree& tree) {
  for (size_t i = is_array(tree.nodes[0]) ? 1 : 0; i < tree.nodes.size(); ++i) {
    const JsonNode& node = tree.nodes[i];
    if (node.kind != JsonKind::Integer || node.integer < 0 || node.integer >= kNoId)
      return graph_error(reader, node, "`output` is not the id of a value");
    reader.graph.outputs.push_back(static_cast<ValueId>(node.integer));
  }
  return true;
}

bool read_graph_rules(GraphReader& reader, const JsonTree& tree) {
  if (tree.nodes[0].kind != JsonKind::Object) return graph_error(reader, tree.nodes[0], "`rules` is not an object");
  for (GraphItems rules(tree, 0); rules.more();) {
    const JsonNode& rule = tree.nodes[rules.next()];
    if (rule.kind != JsonKind::String) return graph_error(reader, rule, "the rule of an operation is not a string");
    reader.graph.rules.emplace_back(rule.key, rule.text);
  }
  return true;
}

struct MemberRow {
  std::string_view key;
  JsonMember mode;
  bool (*read)(GraphReader&, const JsonTree&);
};

// Readers of the fields, called in file order. Only `nodes` needs an earlier field, the names in `strings`. prove_graph
// checks all other references after the whole graph is read.
constexpr MemberRow kMembers[] = {
    {"mode", JsonMember::Whole, read_mode},
    {"attention", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_text_member(r, t, r.graph.attention); }},
    {"experts", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_text_member(r, t, r.graph.experts); }},
    {"dtype", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_text_member(r, t, r.graph.dtype); }},
    {"batch", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_count_member(r, t, r.graph.batch); }},
    {"sequence", JsonMember::Whole,
     [](GraphReader& r, const JsonTree& t) { return read_count_member(r, t, r.graph.sequence); }},
    {"strings", JsonMember::Elements, read_string},
    {"shapes", JsonMember::Elements, read_shape},
    {"sizes", JsonMember::Elements, read_size},
    {"values", JsonMember::Elements, read_value},
    {"leaves", JsonMember::Elements, read_leaf},
    {"nodes", JsonMember::Elements, read_node},
    {"guards", JsonMember::Elements, read_guard},
    {"output", JsonMember::Whole, read_output},
    {"rules", JsonMember::Whole, read_graph_rules},
};

const MemberRow* find_row(std::string_view key) {
  const auto* row =
      std::find_if(std::begin(kMembers), std::end(kMembers), [key](const MemberRow& r) { return r.key == key; });
  return row == std::end(kMembers) ? nullptr : row;
}

}  // namespace

JsonVisitor graph_visitor(GraphReader& reader) {
  return {.member =
              [&reader](std::string_view key, Span span) {
                const MemberRow* row = find_row(key);
                if (row != nullptr) return row->mode;
                report_message(reader.diagnostics, Code::UnknownModelKey, span,
                               fmt::format("unknown key `{}` in the graph", key));
                return JsonMember::Skip;
              },
          .value =
              [&reader](std::string_view key, const JsonTree& tree) {
                const MemberRow* row = find_row(key);
                const JsonNode& root = tree.nodes[0];
                if (row->mode == JsonMember::Elements && !root.key.empty())
                  return graph_error(reader, root,
                                     fmt::format("`{}` is {}, not a list", key, json_kind_name(root.kind)));
                return row->read(reader, tree);
              }};
}

}  // namespace tpplan
