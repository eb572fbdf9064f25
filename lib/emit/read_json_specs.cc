#include "emit/read_json_specs.h"

#include <spdlog/fmt/fmt.h>

#include <deque>

namespace tpplan {
namespace {

struct JsonSpecs {
  const JsonSpecsLayout& layout;
  SpecsFile& specs;
  Diagnostics& diagnostics;
  JsonTree parameters;  // read once the mesh is known
  bool has_mesh = false, has_parameters = false;
};

// Returns the list `key` of the mesh; 0 after reporting that it is missing.
uint32_t mesh_list(const JsonSpecs& in, const JsonTree& tree, std::string_view key) {
  const uint32_t at = find_json_field(tree, 0, key);
  if (at != 0)
    return expect_json_kind(tree.file, tree.nodes[at], JsonKind::Array, fmt::format("`{}`", key), in.diagnostics) ? at
                                                                                                                  : 0;
  report_specs_error(in.diagnostics, value_span(tree.file, tree.nodes[0]), fmt::format("`mesh` has no `{}`", key));
  return 0;
}

bool read_mesh(JsonSpecs& in, const JsonTree& tree) {
  in.has_mesh = true;
  if (!expect_json_kind(tree.file, tree.nodes[0], JsonKind::Object, "`mesh`", in.diagnostics)) return false;
  const uint32_t sizes = mesh_list(in, tree, in.layout.sizes), names = mesh_list(in, tree, in.layout.names);
  if (sizes == 0 || names == 0) return false;
  uint32_t name = names + 1;
  for (uint32_t size = sizes + 1; size < tree.nodes[sizes].end;
       size = tree.nodes[size].end, name = tree.nodes[name].end) {
    if (name >= tree.nodes[names].end) break;
    if (!expect_json_kind(tree.file, tree.nodes[size], JsonKind::Integer, "an axis size", in.diagnostics) ||
        !expect_json_kind(tree.file, tree.nodes[name], JsonKind::String, "an axis name", in.diagnostics) ||
        !add_axis(in.specs.mesh, tree.nodes[name].text, tree.nodes[size].integer,
                  value_span(tree.file, tree.nodes[size]), in.diagnostics)) {
      return false;
    }
  }
  const auto length = [&](uint32_t list) {
    size_t count = 0;
    for (uint32_t i = list + 1; i < tree.nodes[list].end; i = tree.nodes[i].end) ++count;
    return count;
  };
  return length(sizes) == length(names) ||
         report_specs_error(in.diagnostics, value_span(tree.file, tree.nodes[names]),
                            fmt::format("`{}` and `{}` have different lengths", in.layout.sizes, in.layout.names));
}

bool read_uneven(JsonSpecs& in, const JsonTree& tree) {
  if (!expect_json_kind(tree.file, tree.nodes[0], JsonKind::String, "`uneven`", in.diagnostics)) return false;
  return find_uneven_policy(tree.nodes[0].text, in.specs.uneven) ||
         report_specs_error(in.diagnostics, value_span(tree.file, tree.nodes[0]), "`uneven` must be error or torch");
}

bool read_parameters(JsonSpecs& in) {
  const JsonTree& tree = in.parameters;
  if (!expect_json_kind(tree.file, tree.nodes[0], JsonKind::Object, fmt::format("`{}`", in.layout.parameters),
                        in.diagnostics))
    return false;
  for (uint32_t i = 1; i < tree.nodes[0].end; i = tree.nodes[i].end) {
    NamedSpec& named = in.specs.specs.emplace_back();
    named.path = tree.nodes[i].key;
    if (!expect_json_kind(tree.file, tree.nodes[i], JsonKind::Array, fmt::format("`{}`", named.path), in.diagnostics) ||
        !in.layout.read_entries(tree, i, in.specs.mesh, named, in.diagnostics)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool expect_json_kind(FileId file, const JsonNode& node, JsonKind kind, std::string_view what,
                      Diagnostics& diagnostics) {
  if (node.kind == kind) return true;
  return report_specs_error(diagnostics, value_span(file, node),
                            fmt::format("{} is {}, not {}", what, json_kind_name(node.kind), json_kind_name(kind)));
}

bool read_json_specs(const SourceFile& file, const JsonSpecsLayout& layout, SpecsFile& specs,
                     Diagnostics& diagnostics) {
  JsonSpecs in{.layout = layout, .specs = specs, .diagnostics = diagnostics, .parameters = {}};
  std::deque<std::string> strings;
  const auto is_known = [&](std::string_view key) {
    return key == "mesh" || key == "uneven" || key == layout.parameters;
  };
  const JsonVisitor visitor{
      .member = [&](std::string_view key, Span) { return is_known(key) ? JsonField::Whole : JsonField::Skip; },
      .value =
          [&](std::string_view key, const JsonTree& tree) {
            if (key == "mesh") return read_mesh(in, tree);
            if (key == "uneven") return read_uneven(in, tree);
            in.parameters = tree;
            return in.has_parameters = true;
          },
      .kind_help = "write a file of shardings with `tpplan export`"};
  if (!read_json(file, visitor, strings, diagnostics, {.tree_nodes = size_t{16} * 1024 * 1024}) ||
      has_errors(diagnostics))
    return false;
  const auto require = [&](bool present, std::string_view key) {
    return present || report_specs_error(diagnostics, {file.id, 0, 1}, fmt::format("the file has no `{}`", key));
  };
  return require(in.has_mesh, "mesh") && require(in.has_parameters, layout.parameters) && read_parameters(in);
}

}  // namespace tpplan
