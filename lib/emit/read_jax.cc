#include "emit/read_json_specs.h"

namespace tpplan {
namespace {

bool read_entry(const JsonTree& tree, uint32_t at, const Mesh& mesh, PartitionSpec& spec, Diagnostics& diagnostics) {
  const JsonNode& node = tree.nodes[at];
  const auto read_axis = [&](const JsonNode& axis) {
    return expect_json_kind(tree.file, axis, JsonKind::String, "a spec entry", diagnostics) &&
           add_spec_axis(mesh, axis.text, spec, value_span(tree.file, axis), diagnostics);
  };
  spec.emplace_back();
  if (node.kind == JsonKind::Null) return true;
  if (node.kind != JsonKind::Array) return read_axis(node);
  for (uint32_t i = at + 1; i < node.end; i = tree.nodes[i].end) {
    if (!read_axis(tree.nodes[i])) return false;
  }
  return true;
}

bool read_entries(const JsonTree& tree, uint32_t at, const Mesh& mesh, NamedSpec& named, Diagnostics& diagnostics) {
  for (uint32_t i = at + 1; i < tree.nodes[at].end; i = tree.nodes[i].end) {
    if (!read_entry(tree, i, mesh, named.spec, diagnostics)) return false;
  }
  return true;
}

}  // namespace

bool read_jax_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics) {
  return read_json_specs(file, {"axis_shapes", "axis_names", "specs", read_entries}, specs, diagnostics);
}

}  // namespace tpplan
