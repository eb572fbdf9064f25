#include "manifest/write_manifest.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "manifest/manifest_json.h"

namespace tpplan {
namespace {

// Everything of a parameter's line behind its path.
std::string layout_json(const ParamLayout& layout, const Mesh& mesh) {
  std::string out = fmt::format(", \"shape\": {}, \"dtype\": \"{}\", \"spec\": {}, \"placements\": {}",
                                sizes_json(layout.shape), dtypes()[layout.dtype].name,
                                spec_json(layout.sharding.spec, mesh), placements_json(layout.placements));
  if (!layout.sharding.segments.empty())
    out += fmt::format(", \"segments\": {}", segments_json(layout.sharding.segments));
  if (layout.local_shapes.size() == 1)
    out += fmt::format(", \"local_shape\": {}", sizes_json(layout.local_shapes[0]));
  else
    out += fmt::format(", \"local_shape\": null, \"local_shapes\": {}", shapes_json(layout.local_shapes));
  out += fmt::format(", \"style\": {}, \"rule\": {}", layout.style.empty() ? "null" : json_text(layout.style),
                     layout.rule == kNoManifestRule ? "null" : std::to_string(layout.rule));
  out += fmt::format(", \"reason\": \"{}\", \"replicas\": {}, \"grad_reduce\": ", layout.reason, layout.replicas);
  out += grad_reduce_json(layout.grad_reduce, mesh);
  if (!layout.kind.empty()) out += fmt::format(", \"kind\": {}", json_text(layout.kind));
  if (!layout.dims.empty()) out += fmt::format(", \"dims\": {}", names_json(layout.dims));
  out += fmt::format(", \"init\": {}", layout.init == kNoInit ? "null" : std::to_string(layout.init));
  return out + "}";
}

// Everything of a module's line behind its path.
std::string layout_json(const ModuleLayout& module, const Mesh& mesh) {
  return fmt::format(", \"style\": {}, \"rule\": {}, \"inputs\": {}, \"outputs\": {}}}", json_text(module.style),
                     module.rule, values_json(module.inputs, mesh), values_json(module.outputs, mesh));
}

std::string rule_json(const ManifestRule& rule) {
  const std::string block = rule.in_block ? fmt::format("\"block\": {}, ", json_text(rule.block)) : "";
  return fmt::format("{{{}\"key\": {}, \"line\": {}, \"matches\": {}}}", block, json_text(rule.key), rule.line,
                     rule.matches);
}

std::string head_json(const Manifest& m) {
  std::string out = fmt::format("{{\n \"format\": \"{}\",\n \"tool\": \"{}\",\n", kManifestFormat, kToolVersion);
  out += fmt::format(
      " \"inputs\": {{\"model\": {{\"name\": {}, \"sha256\": \"{}\"}}, \"plan\": {{\"sha256\": \"{}\"}}}},\n",
      json_text(m.model_name), m.model_sha256, m.plan_sha256);
  out += fmt::format(" \"mesh\": {},\n", mesh_json(m.mesh));
  return out + fmt::format(" \"uneven\": \"{}\",\n", m.uneven == UnevenPolicy::Error ? "error" : "torch");
}

std::string tail_json(const Manifest& m) {
  std::string out =
      fmt::format(" \"data\": {},\n \"fsdp\": {},\n", data_json(m.data, m.mesh), fsdp_json(m.fsdp, m.mesh));
  out += fmt::format(" \"remat\": {},\n \"init\": {},\n", names_json(m.remat), init_json(m.distributions));
  const ManifestTotals& t = m.totals;
  out += fmt::format(
      " \"totals\": {{\"parameters\": {}, \"elements\": {}, \"bytes\": {}, \"bytes_per_rank\": {}, "
      "\"max_bytes_per_rank\": {}, \"ideal_bytes_per_rank\": {}, \"replicated_bytes_per_rank\": {}}}\n}}\n",
      t.parameters, t.elements, t.bytes,
      t.bytes_per_rank.empty() ? "null" : fmt::format("[{}]", fmt::join(t.bytes_per_rank, ", ")), t.max_bytes_per_rank,
      t.ideal_bytes_per_rank, t.replicated_bytes_per_rank);
  return out;
}

// One item a line.
template <typename Range, typename Write>
bool write_lines(const Sink& sink, std::string_view key, const Range& items, Write write) {
  if (!sink(fmt::format(" \"{}\": [", key))) return false;
  bool first = true;
  std::string line;
  for (const auto& item : items) {
    line.assign(first ? "\n  " : ",\n  ");
    first = false;
    write(item, line);
    if (!sink(line)) return false;
  }
  return sink(first ? "],\n" : "\n ],\n");
}

void append_line(std::string& line, std::string_view path, std::string_view layout) {
  line += "{\"path\": ";
  append_json_string(line, path);
  line += layout;
}

// The names of one tensor.
std::string tie_json(const Manifest& manifest, const std::vector<uint32_t>& tie) {
  std::vector<std::string> names;
  for (const uint32_t param : tie) names.emplace_back(path_of(manifest, manifest.parameters[param]));
  return names_json(names);
}

}  // namespace

bool write_manifest(const Manifest& manifest, const Sink& sink) {
  std::vector<std::string> layouts, module_layouts;
  for (const ParamLayout& layout : manifest.layouts) layouts.push_back(layout_json(layout, manifest.mesh));
  for (const ModuleLayout& layout : manifest.module_layouts)
    module_layouts.push_back(layout_json(layout, manifest.mesh));
  const auto param = [&](const ManifestParam& p, std::string& line) {
    append_line(line, path_of(manifest, p), layouts[p.layout]);
  };
  const auto module = [&](const ManifestModule& m, std::string& line) {
    append_line(line, path_of(manifest, m), module_layouts[m.layout]);
  };
  return sink(head_json(manifest)) &&
         write_lines(sink, "rules", manifest.rules,
                     [](const ManifestRule& r, std::string& line) { line += rule_json(r); }) &&
         write_lines(sink, "parameters", manifest.parameters, param) &&
         write_lines(sink, "modules", manifest.modules, module) &&
         write_lines(sink, "buffers", manifest.buffers, param) &&
         write_lines(sink, "tied", manifest.tied,
                     [&](const std::vector<uint32_t>& tie, std::string& line) { line += tie_json(manifest, tie); }) &&
         sink(tail_json(manifest));
}

std::string param_json(const Manifest& manifest, const ManifestParam& param) {
  std::string line;
  append_line(line, path_of(manifest, param), layout_json(layout_of(manifest, param), manifest.mesh));
  return line;
}

}  // namespace tpplan
