#include "model/read_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "diagnostics/remove_findings.h"
#include "graph/read_graph.h"
#include "model/complete_graph.h"
#include "model/other_files.h"
#include "model/prove_graph.h"
#include "model/read_module.h"

namespace tpplan {
namespace {

constexpr size_t kMaxTiedNames = size_t{2} << 20;

void read_format(ModelReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (!expect(reader, node, JsonKind::String, "`format`")) return;
  if (node.text == kModelFormat) return;
  const bool newer = node.text.starts_with("tpplan.model/");
  const bool other = node.text.starts_with("tpplan.");
  fault(reader, Code::TP2001, node, fmt::format("format `{}` is not `{}`", node.text, kModelFormat),
        newer   ? "a newer tpplan reads this version"
        : other ? "the model comes first, then the plan: tpplan compile MODEL PLAN"
                : "");
  reader.is_another_file = true;
}

void read_name(ModelReader& reader, const JsonTree& tree) {
  if (expect(reader, tree.nodes[0], JsonKind::String, "`name`")) reader.graph.name = tree.nodes[0].text;
}

void read_framework(ModelReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (!expect(reader, node, JsonKind::String, "`framework`")) return;
  const auto found = std::find(std::begin(kFrameworkNames), std::end(kFrameworkNames), node.text);
  if (found != std::end(kFrameworkNames))
    reader.graph.framework = static_cast<Framework>(found - std::begin(kFrameworkNames));
  else
    fault(reader, Code::TP2011, node, fmt::format("unknown framework `{}`", node.text),
          "frameworks are torch, jax and keras");
}

// One group of names.
void read_tie(ModelReader& reader, const JsonTree& tree) {
  const JsonNode& group = tree.nodes[0];
  if (!expect(reader, group, JsonKind::Array, "a group of tied names")) return;
  std::vector<std::string_view> names;
  for (uint32_t i = 1; i < group.end; i = tree.nodes[i].end) {
    if (!expect(reader, tree.nodes[i], JsonKind::String, "a tied name")) return;
    names.push_back(tree.nodes[i].text);
  }
  if (names.size() < 2) return fault(reader, Code::TP2010, group, "a tie names fewer than two parameters");
  reader.tied_names += names.size();
  if (reader.tied_names > kMaxTiedNames) {
    return fault(reader, Code::TP1007, {reader.graph.file, group.offset, 1},
                 fmt::format("the ties hold more than {} names", kMaxTiedNames));
  }
  reader.ties.emplace_back(std::move(names), static_cast<uint32_t>(group.offset));
}

// Comes here only where it is no object: what is in it goes to graph_visitor.
void read_no_graph(ModelReader& reader, const JsonTree& tree) {
  fault(reader, Code::TP2003, tree.nodes[0], "`graph` is not an object");
}

struct MemberRow {
  std::string_view key;
  JsonMember mode;
  void (*read)(ModelReader&, const JsonTree&);  // the member, or each element of it
  bool is_required = false;
};

constexpr MemberRow kMembers[] = {
    {"format", JsonMember::Whole, read_format, true},
    {"name", JsonMember::Whole, read_name, true},
    {"framework", JsonMember::Whole, read_framework, true},
    {"modules", JsonMember::Elements, read_module, true},
    {"tied", JsonMember::Elements, read_tie},
    {"graph", JsonMember::Members, read_no_graph},
    {"$schema", JsonMember::Skip, nullptr},
    {"metadata", JsonMember::Skip, nullptr},
};

// The index of a member's row; behind the last where there is none.
size_t find_row(std::string_view key) {
  const auto row =
      std::find_if(std::begin(kMembers), std::end(kMembers), [key](const MemberRow& r) { return r.key == key; });
  return static_cast<size_t>(row - std::begin(kMembers));
}

void warn_unknown_member(ModelReader& reader, std::string_view key, Span span) {
  std::vector<std::string_view> known;
  for (const MemberRow& row : kMembers) known.push_back(row.key);
  warn_unknown_key(reader, "the model", key, span, known);
}

// An element has no key: a node with one is a member that is read by its elements and is no array.
void read_member(ModelReader& reader, const MemberRow& row, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (row.mode == JsonMember::Elements && !node.key.empty())
    report_kind(reader, node, JsonKind::Array, fmt::format("`{}`", row.key));
  else
    row.read(reader, tree);
}

void check_required(ModelReader& reader, std::span<const bool> is_there) {
  for (size_t i = 0; i < std::size(kMembers); ++i) {
    if (!kMembers[i].is_required || is_there[i]) continue;
    const bool is_format = kMembers[i].key == "format";
    fault(reader, is_format ? Code::TP2001 : Code::TP2002, {reader.graph.file, 0, 1},
          fmt::format("the model has no `{}`", kMembers[i].key),
          is_format ? fmt::format("a model file starts with {{\"format\": \"{}\"; `tpplan import --help` says of which "
                                  "files a model is made",
                                  kModelFormat)
                    : "");
    if (!is_format) continue;
    remove_findings(reader.diagnostics, [&](const Diagnostic& d) { return d.code == Code::TP2004; });
    return;  // the rest would be said of another file
  }
}

}  // namespace

// The graph of operations is proven last: it names modules and parameters, which complete_graph has made findable.
ModelGraph read_model(const SourceFile& file, Diagnostics& diagnostics) {
  ModelGraph graph;
  graph.file = file.id;
  ModelReader reader{
      .graph = graph, .text = file.text, .diagnostics = diagnostics, .type_index = {}, .pending = {}, .ties = {}};
  std::array<bool, std::size(kMembers)> is_there{};
  GraphReader graph_reader{.graph = graph.operations, .file = file.id, .diagnostics = diagnostics};
  const JsonVisitor inner = graph_visitor(graph_reader);
  const JsonVisitor visitor{.member =
                                [&](std::string_view key, Span span) {
                                  const size_t row = find_row(key);
                                  if (row == std::size(kMembers)) {
                                    warn_unknown_member(reader, key, span);
                                    return JsonMember::Skip;
                                  }
                                  is_there[row] = true;
                                  if (key == "graph") graph.operations.offset = static_cast<uint32_t>(span.offset);
                                  return kMembers[row].mode;
                                },
                            .value =
                                [&](std::string_view key, const JsonTree& tree) {
                                  read_member(reader, kMembers[find_row(key)], tree);
                                  return !reader.is_another_file && !too_many_faults(reader);
                                },
                            .inner = &inner,
                            .kind_help = "a model starts with `{\"format\": ...`"};
  const bool is_json = read_json(file, visitor, graph.strings, diagnostics);
  if (!is_there[find_row("format")] && report_other_file(file, diagnostics)) return graph;
  if (!is_json) return graph;
  check_required(reader, is_there);
  if (!has_errors(diagnostics)) complete_graph(reader);
  graph.operations.is_there =
      !has_errors(diagnostics) && !graph.operations.nodes.empty() && prove_graph(graph.operations, graph, diagnostics);
  return graph;
}

}  // namespace tpplan
