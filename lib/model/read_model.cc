#include "model/read_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "diagnostics/remove_diagnostics.h"
#include "model/check_program.h"
#include "model/complete_graph.h"
#include "model/other_files.h"
#include "model/prove_graph.h"
#include "model/read_graph.h"
#include "model/read_graph_text.h"
#include "model/read_module.h"
#include "programs/read_program.h"
#include "programs/recorded_program.h"

namespace tpplan {
namespace {

constexpr size_t kMaxTiedNames = size_t{2} << 20;
constexpr size_t kMaxGraphLines = size_t{16} << 20;

void read_format(ModelReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (!expect(reader, node, JsonKind::String, "`format`")) return;
  if (node.text == kModelFormat) return;
  const bool newer = node.text.starts_with("tpplan.model/");
  const bool other = node.text.starts_with("tpplan.");
  report_error(reader, Code::UnknownModelFormat, node, fmt::format("format `{}` is not `{}`", node.text, kModelFormat),
               newer   ? "update tpplan: a newer version reads this format"
               : other ? "write the model before the plan: tpplan compile MODEL PLAN"
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
    report_error(reader, Code::UnknownKind, node, fmt::format("unknown framework `{}`", node.text),
                 "use torch, jax or keras");
}

// Reads one group of tied names.
void read_tie(ModelReader& reader, const JsonTree& tree) {
  const JsonNode& group = tree.nodes[0];
  if (!expect(reader, group, JsonKind::Array, "a group of tied names")) return;
  std::vector<std::string_view> names;
  for (uint32_t i = 1; i < group.end; i = tree.nodes[i].end) {
    if (!expect(reader, tree.nodes[i], JsonKind::String, "a tied name")) return;
    names.push_back(tree.nodes[i].text);
  }
  if (names.size() < 2) return report_error(reader, Code::InvalidTie, group, "a tie names fewer than two parameters");
  reader.tied_names += names.size();
  if (reader.tied_names > kMaxTiedNames) {
    return report_error(reader, Code::NestingTooDeep, {reader.graph.file, group.offset, 1},
                        fmt::format("the ties contain more than {} names", kMaxTiedNames));
  }
  reader.ties.emplace_back(std::move(names), static_cast<uint32_t>(group.offset));
}

// Reads a line of a graph in text notation. graph_visitor reads the fields of a graph object.
void read_graph_line(ModelReader& reader, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (!node.key.empty() || node.kind != JsonKind::String)
    return report_error(
        reader, Code::InvalidModelValue, node,
        fmt::format("{} is {}", node.key.empty() ? "a line of `graph`" : "`graph`", json_kind_name(node.kind)),
        "write `graph` as an object, or as a list of lines of text");
  if (reader.graph_lines.size() == kMaxGraphLines)
    return report_error(reader, Code::NestingTooDeep, node,
                        fmt::format("`graph` has more than {} lines", kMaxGraphLines));
  const bool is_in_file =
      node.text.data() >= reader.text.data() && node.text.data() <= reader.text.data() + reader.text.size();
  reader.graph_lines.push_back({node.text, node.offset + (is_in_file ? 1 : 0), !is_in_file});
}

// Reads a program that is not an object; begin_recorded_program reads the fields of an object.
void read_program_value(ModelReader& reader, const JsonTree& tree) {
  report_wrong_kind(reader, tree.nodes[0], JsonKind::Object, "`program`");
}

struct ModelField {
  std::string_view key;
  JsonField mode;
  void (*read)(ModelReader&, const JsonTree&);  // reads the field, or each of its elements
  bool is_required = false;
};

constexpr ModelField kModelFields[] = {
    {"format", JsonField::Whole, read_format, true},
    {"name", JsonField::Whole, read_name, true},
    {"framework", JsonField::Whole, read_framework, true},
    {"modules", JsonField::Elements, read_module, true},
    {"tied", JsonField::Elements, read_tie},
    {"graph", JsonField::Fields, read_graph_line},
    {"program", JsonField::Fields, read_program_value},
    {"$schema", JsonField::Skip, nullptr},
    {"metadata", JsonField::Skip, nullptr},
};

// Returns the index of the field's row, or the number of rows if the key is unknown.
size_t find_field(std::string_view key) {
  const auto row = std::find_if(std::begin(kModelFields), std::end(kModelFields),
                                [key](const ModelField& r) { return r.key == key; });
  return static_cast<size_t>(row - std::begin(kModelFields));
}

void warn_unknown_field(ModelReader& reader, std::string_view key, Span span) {
  std::vector<std::string_view> known;
  for (const ModelField& row : kModelFields) known.push_back(row.key);
  warn_unknown_key(reader, "the model", key, span, known);
}

// Reads a field or an element. An element has no key: if a field that is read by elements has one, it is not an array.
void read_field(ModelReader& reader, const ModelField& row, const JsonTree& tree) {
  const JsonNode& node = tree.nodes[0];
  if (row.mode == JsonField::Elements && !node.key.empty())
    report_wrong_kind(reader, node, JsonKind::Array, fmt::format("`{}`", row.key));
  else
    row.read(reader, tree);
}

void check_required(ModelReader& reader, std::span<const bool> is_there) {
  for (size_t i = 0; i < std::size(kModelFields); ++i) {
    if (!kModelFields[i].is_required || is_there[i]) continue;
    const bool is_format = kModelFields[i].key == "format";
    report_error(
        reader, is_format ? Code::UnknownModelFormat : Code::MissingModelField, {reader.graph.file, 0, 1},
        fmt::format("the model has no `{}`", kModelFields[i].key),
        is_format ? fmt::format("start the file with {{\"format\": \"{}\", or create a model file with `tpplan import`",
                                kModelFormat)
                  : "");
    if (!is_format) continue;
    remove_diagnostics(reader.diagnostics, [&](const Diagnostic& d) { return d.code == Code::UnknownModelKey; });
    return;  // other diagnostics would only repeat that this is not a model file
  }
}

}  // namespace

// Validates the traced operations last: they refer to modules and parameters, which complete_graph indexes.
ModelGraph read_model(const SourceFile& file, Diagnostics& diagnostics) {
  ModelGraph graph;
  graph.file = file.id;
  ModelReader reader{.graph = graph,
                     .text = file.text,
                     .diagnostics = diagnostics,
                     .type_index = {},
                     .pending = {},
                     .ties = {},
                     .graph_lines = {}};
  std::array<bool, std::size(kModelFields)> is_there{};
  GraphReader graph_reader{.graph = graph.operations, .file = file.id, .diagnostics = diagnostics};
  const JsonVisitor of_graph = graph_visitor(graph_reader);
  programs::RecordedReader program;
  bool is_in_program = false;
  const auto visitor_of_key = [&]() -> const JsonVisitor& { return is_in_program ? program.visitor : of_graph; };
  const JsonVisitor inner{
      .member = [&](std::string_view key, Span span) { return visitor_of_key().member(key, span); },
      .value = [&](std::string_view key, const JsonTree& tree) { return visitor_of_key().value(key, tree); }};
  const JsonVisitor visitor{.member =
                                [&](std::string_view key, Span span) {
                                  const size_t row = find_field(key);
                                  if (row == std::size(kModelFields)) {
                                    warn_unknown_field(reader, key, span);
                                    return JsonField::Skip;
                                  }
                                  is_there[row] = true;
                                  is_in_program = key == "program";
                                  if (is_in_program) program = programs::begin_recorded_program(file, diagnostics);
                                  if (key == "graph") graph.operations.offset = static_cast<uint32_t>(span.offset);
                                  return kModelFields[row].mode;
                                },
                            .value =
                                [&](std::string_view key, const JsonTree& tree) {
                                  read_field(reader, kModelFields[find_field(key)], tree);
                                  return !reader.is_another_file && !too_many_errors(reader);
                                },
                            .inner = &inner,
                            .kind_help = "start the model with `{\"format\": ...`"};
  reserve_modules(reader);
  const bool is_json =
      read_json(file, visitor, graph.strings, diagnostics, {.tree_nodes = programs::kMostProgramNodes});
  if (!is_there[find_field("format")] && report_other_file(file, diagnostics)) return graph;
  if (!is_json) return graph;
  check_required(reader, is_there);
  index_modules(reader);
  if (!has_errors(diagnostics)) complete_graph(reader);
  if (!has_errors(diagnostics) && !reader.graph_lines.empty())
    std::ignore = read_graph_text(reader.graph_lines, graph, diagnostics);  // what is wrong is reported
  if (!has_errors(diagnostics) && program.recorded != nullptr && program.finish()) {
    graph.program = program.recorded;
    if (!check_program(graph, diagnostics)) graph.program = nullptr;
  }
  graph.operations.is_there =
      !has_errors(diagnostics) && !graph.operations.nodes.empty() && prove_graph(graph.operations, graph, diagnostics);
  return graph;
}

}  // namespace tpplan
