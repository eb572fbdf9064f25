#include "model/read_args.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>

#include "model/graph_items.h"

namespace tpplan {
namespace {

GraphArg& push_arg(GraphReader& reader, ArgKind kind) {
  GraphArg& arg = reader.graph.args.emplace_back();
  arg.kind = kind;
  arg.end = static_cast<uint32_t>(reader.graph.args.size());
  return arg;
}

uint32_t store_text(GraphReader& reader, std::string_view text) {
  reader.graph.texts.push_back(text);
  return static_cast<uint32_t>(reader.graph.texts.size() - 1);
}

// Reads a tuple or slice: appends the argument, then its elements, then sets its `end`.
bool read_parts(GraphReader& reader, const JsonTree& tree, uint32_t at, ArgKind kind) {
  const size_t index = reader.graph.args.size();
  push_arg(reader, kind);
  GraphItems parts(tree, at);
  parts.next();  // the tag
  while (parts.more()) {
    if (!read_arg(reader, tree, parts.next())) return false;
  }
  reader.graph.args[index].end = static_cast<uint32_t>(reader.graph.args.size());
  return true;
}

bool read_slice(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  return read_parts(reader, tree, at, ArgKind::Slice);
}

bool read_ellipsis(GraphReader& reader, const JsonTree&, uint32_t) {
  push_arg(reader, ArgKind::Ellipsis);
  return true;
}

// @pre nodes[at + 2] exists, here and in the readers below: read_tagged has checked the number of parts by kTags.
bool read_size_arg(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& entry = tree.nodes[at + 2];
  if (entry.kind != JsonKind::Integer || entry.integer < 0 || entry.integer >= kNoId) return false;
  push_arg(reader, ArgKind::Size).id = static_cast<uint32_t>(entry.integer);
  return true;
}

bool read_text_arg(GraphReader& reader, const JsonTree& tree, uint32_t at, ArgKind kind) {
  const JsonNode& text = tree.nodes[at + 2];
  if (text.kind != JsonKind::String) return false;
  push_arg(reader, kind).id = store_text(reader, text.text);
  return true;
}

// Reads inf, -inf and nan, for which JSON has no syntax. Attention masks use -inf.
bool read_float(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::pair<std::string_view, double> kFloats[] = {
      {"inf", kInfinity}, {"-inf", -kInfinity}, {"nan", std::numeric_limits<double>::quiet_NaN()}};
  const auto row = std::find_if(std::begin(kFloats), std::end(kFloats),
                                [&](const auto& known) { return known.first == tree.nodes[at + 2].text; });
  if (row == std::end(kFloats) || !read_text_arg(reader, tree, at, ArgKind::Float)) return false;
  reader.graph.args.back().number = row->second;
  return true;
}

bool read_host(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& number = tree.nodes[at + 2];
  const bool is_number = number.kind == JsonKind::Integer || number.kind == JsonKind::Number;
  if (!is_number && number.kind != JsonKind::Bool) return false;
  push_arg(reader, ArgKind::Host).number = is_number ? number_of(number) : number.is_true;
  return true;
}

constexpr int kAnyCount = -1;

// An argument with a tag: the tag, the number of parts after it, and the reader. The reader returns false for a part of
// the wrong kind, or after it reports an error.
struct TagRow {
  std::string_view tag;
  int parts;
  bool (*read)(GraphReader&, const JsonTree&, uint32_t at);
};

constexpr TagRow kTags[] = {
    {"t", kAnyCount,
     [](GraphReader& r, const JsonTree& t, uint32_t at) { return read_parts(r, t, at, ArgKind::Tuple); }},
    {"e", 1, read_size_arg},
    {"s", 3, read_slice},
    {"x", 0, read_ellipsis},
    {"d", 1, [](GraphReader& r, const JsonTree& t, uint32_t at) { return read_text_arg(r, t, at, ArgKind::TypeName); }},
    {"f", 1, read_float},
    {"h", 1, read_host},
    {"o", 1, [](GraphReader& r, const JsonTree& t, uint32_t at) { return read_text_arg(r, t, at, ArgKind::Other); }},
};

bool read_tagged(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& tag = tree.nodes[at + 1];
  const auto row =
      std::find_if(std::begin(kTags), std::end(kTags), [&](const TagRow& known) { return known.tag == tag.text; });
  if (row == std::end(kTags))
    return report_graph_error(reader, tree.nodes[at], fmt::format("`[\"{}\", ...]` is not an argument", tag.text));
  if (row->parts != kAnyCount) {
    int parts = 0;
    for (GraphItems items(tree, at); items.more(); items.next()) ++parts;
    if (parts - 1 != row->parts)
      return report_graph_error(reader, tree.nodes[at],
                                fmt::format("`[\"{}\", ...]` has {} parts, not {}", tag.text, row->parts, parts - 1));
  }
  return row->read(reader, tree, at) ||
         report_graph_error(reader, tree.nodes[at],
                            fmt::format("`[\"{}\", ...]` has an element of the wrong kind", tag.text));
}

}  // namespace

// Reads an argument. An array of one integer is always a value, because tuples have a tag. read_json limits the depth
// of the recursion.
bool read_arg(GraphReader& reader, const JsonTree& tree, uint32_t at) {
  const JsonNode& node = tree.nodes[at];
  if (!check_capacity(reader, reader.graph.args.size(), node)) return false;
  switch (node.kind) {
    case JsonKind::Null:
      push_arg(reader, ArgKind::None);
      return true;
    case JsonKind::Bool: {
      GraphArg& arg = push_arg(reader, ArgKind::Bool);
      arg.integer = node.is_true;
      arg.number = node.is_true;
      return true;
    }
    case JsonKind::Integer: {
      GraphArg& arg = push_arg(reader, ArgKind::Int);
      arg.integer = node.integer;
      arg.number = static_cast<double>(node.integer);
      return true;
    }
    case JsonKind::Number:
      push_arg(reader, ArgKind::Number).number = number_of(node);
      return true;
    case JsonKind::String:
      push_arg(reader, ArgKind::Text).id = store_text(reader, node.text);
      return true;
    case JsonKind::Array:
      if (node.end == at + 2 && tree.nodes[at + 1].kind == JsonKind::Integer) {
        const int64_t id = tree.nodes[at + 1].integer;
        if (id < 0 || id >= kNoId) return report_graph_error(reader, node, "an argument is not the id of a value");
        push_arg(reader, ArgKind::Value).id = static_cast<uint32_t>(id);
        return true;
      }
      if (node.end > at + 1 && tree.nodes[at + 1].kind == JsonKind::String) return read_tagged(reader, tree, at);
      [[fallthrough]];
    case JsonKind::Object:
      break;
  }
  return report_graph_error(reader, node, "an argument of the graph has an unknown form");
}

}  // namespace tpplan
