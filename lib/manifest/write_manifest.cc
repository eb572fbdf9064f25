#include "manifest/write_manifest.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"

namespace tpplan {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

template <typename Range, typename Write>
std::string list(const Range& items, Write write, std::string_view separator = ", ") {
  std::string out = "[";
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    out += write(item);
  }
  return out + "]";
}

std::string sizes_json(std::span<const int64_t> sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

std::string spec_json(const PartitionSpec& spec, const Mesh& mesh) {
  const auto name = [&](AxisId axis) { return quoted(mesh.axes[axis].name); };
  return list(spec, [&](const DimAxes& axes) -> std::string { return axes.empty() ? "null" : axes.size() == 1 ? name(axes[0]) : list(axes, name); });
}

std::string placements_json(const std::optional<std::vector<Placement>>& placements) {
  return placements ? list(*placements, [](const Placement& p) { return quoted(to_text(p)); }) : "null";
}

std::string segments_json(const std::vector<DimSegments>& segments) {
  std::string out;
  for (const DimSegments& s : segments) out += fmt::format("{}\"{}\": {}", out.empty() ? "{" : ", ", s.dim, sizes_json(s.sizes));
  return out + "}";
}

// Everything of a parameter's line behind its path.
std::string layout_json(const ParamLayout& layout, const Mesh& mesh) {
  std::string out = fmt::format(", \"shape\": {}, \"dtype\": \"{}\", \"spec\": {}, \"placements\": {}", sizes_json(layout.shape),
                                dtypes()[layout.dtype].name, spec_json(layout.sharding.spec, mesh), placements_json(layout.placements));
  if (!layout.sharding.segments.empty()) out += fmt::format(", \"segments\": {}", segments_json(layout.sharding.segments));
  if (layout.local_shapes.size() == 1) out += fmt::format(", \"local_shape\": {}", sizes_json(layout.local_shapes[0]));
  else out += fmt::format(", \"local_shape\": null, \"local_shapes\": {}", list(layout.local_shapes, [](const auto& s) { return sizes_json(s); }));
  out += fmt::format(", \"style\": {}, \"rule\": {}", layout.style.empty() ? "null" : quoted(layout.style), layout.rule == kNoManifestRule ? "null" : std::to_string(layout.rule));
  out += fmt::format(", \"reason\": \"{}\", \"replicas\": {}, \"grad_reduce\": ", layout.reason, layout.replicas);
  out += list(layout.grad_reduce, [&](const GradReduce& reduce) {
    return fmt::format("{{\"axis\": {}, \"kind\": \"{}\"}}", quoted(mesh.axes[reduce.axis].name), reduce.kind == GradReduceKind::AllReduce ? "all_reduce" : "reduce_scatter");
  });
  return out + "}";
}

std::string collectives_json(const std::vector<Collective>& steps, const Mesh& mesh) {
  return list(steps, [&](const Collective& step) {
    std::string out = fmt::format("{{\"kind\": \"{}\", \"axis\": {}", to_text(step.kind), quoted(mesh.axes[step.axis].name));
    if (step.kind != CollectiveKind::AllReduce) out += fmt::format(", \"dim\": {}", step.dim);
    if (step.kind == CollectiveKind::AllToAll) out += fmt::format(", \"from_dim\": {}", step.from_dim);
    return out + "}";
  });
}

std::string value_json(const ManifestValue& value, const Mesh& mesh) {
  std::string out = value.kwarg.empty() ? fmt::format("{{\"arg\": {}", value.arg) : fmt::format("{{\"kwarg\": {}", quoted(value.kwarg));
  out += fmt::format(", \"from\": {}, \"to\": {}", placements_json(value.from), placements_json(value.to));
  if (value.use_local) out += fmt::format(", \"use_local\": {}", *value.use_local);
  if (!value.forward.empty()) out += fmt::format(", \"forward\": {}", collectives_json(value.forward, mesh));
  if (!value.backward.empty()) out += fmt::format(", \"backward\": {}", collectives_json(value.backward, mesh));
  return out + "}";
}

// Everything of a module's line behind its path.
std::string layout_json(const ModuleLayout& module, const Mesh& mesh) {
  const auto value = [&](const ManifestValue& v) { return value_json(v, mesh); };
  return fmt::format(", \"style\": {}, \"rule\": {}, \"inputs\": {}, \"outputs\": {}}}", quoted(module.style), module.rule,
                     list(module.inputs, value), list(module.outputs, value));
}

std::string rule_json(const ManifestRule& rule) {
  const std::string block = rule.in_block ? fmt::format("\"block\": {}, ", quoted(rule.block)) : "";
  return fmt::format("{{{}\"key\": {}, \"line\": {}, \"matches\": {}}}", block, quoted(rule.key), rule.line, rule.matches);
}

std::string head_json(const Manifest& m) {
  std::string out = fmt::format("{{\n \"format\": \"{}\",\n \"tool\": \"{}\",\n", kManifestFormat, kToolVersion);
  out += fmt::format(" \"inputs\": {{\"model\": {{\"name\": {}, \"sha256\": \"{}\"}}, \"plan\": {{\"sha256\": \"{}\"}}}},\n", quoted(m.model_name), m.model_sha256, m.plan_sha256);
  out += fmt::format(" \"mesh\": {},\n", list(m.mesh.axes, [](const MeshAxis& axis) { return fmt::format("{{\"name\": {}, \"size\": {}}}", quoted(axis.name), axis.size); }));
  return out + fmt::format(" \"uneven\": \"{}\",\n", m.uneven == UnevenPolicy::Error ? "error" : "torch");
}

std::string tail_json(const Manifest& m) {
  const auto axis_name = [&](AxisId axis) { return quoted(m.mesh.axes[axis].name); };
  std::string out = fmt::format(" \"data\": {},\n", m.data ? fmt::format("{{\"axes\": {}, \"dim\": {}}}", list(m.data->axes, axis_name), m.data->dim) : "null");
  out += fmt::format(" \"fsdp\": {},\n", m.fsdp ? fmt::format("{{\"axis\": {}, \"policy\": \"{}\", \"min_weight_size\": {}, \"units\": {}}}", axis_name(m.fsdp->axis), m.fsdp->policy,
                                                              m.fsdp->min_weight_size, list(m.fsdp->units, quoted)) : "null");
  out += fmt::format(" \"remat\": {},\n \"init\": {{\"algorithm\": \"threefry2x32-jax\"}},\n", list(m.remat, quoted));
  const ManifestTotals& t = m.totals;
  out += fmt::format(" \"totals\": {{\"parameters\": {}, \"elements\": {}, \"bytes\": {}, \"bytes_per_rank\": {}, \"max_bytes_per_rank\": {}, \"ideal_bytes_per_rank\": {}, \"replicated_bytes_per_rank\": {}}}\n}}\n",
                     t.parameters, t.elements, t.bytes, t.bytes_per_rank.empty() ? "null" : list(t.bytes_per_rank, [](uint64_t b) { return std::to_string(b); }),
                     t.max_bytes_per_rank, t.ideal_bytes_per_rank, t.replicated_bytes_per_rank);
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

}  // namespace

bool write_manifest(const Manifest& manifest, const Sink& sink) {
  std::vector<std::string> layouts, module_layouts;
  for (const ParamLayout& layout : manifest.layouts) layouts.push_back(layout_json(layout, manifest.mesh));
  for (const ModuleLayout& layout : manifest.module_layouts) module_layouts.push_back(layout_json(layout, manifest.mesh));
  const auto param = [&](const ManifestParam& p, std::string& line) { append_line(line, path_of(manifest, p), layouts[p.layout]); };
  const auto module = [&](const ManifestModule& m, std::string& line) { append_line(line, path_of(manifest, m), module_layouts[m.layout]); };
  return sink(head_json(manifest)) && write_lines(sink, "rules", manifest.rules, [](const ManifestRule& r, std::string& line) { line += rule_json(r); }) &&
         write_lines(sink, "parameters", manifest.parameters, param) &&
         write_lines(sink, "modules", manifest.modules, module) &&
         write_lines(sink, "buffers", manifest.buffers, param) && sink(tail_json(manifest));
}

std::string param_json(const Manifest& manifest, const ManifestParam& param) {
  std::string line;
  append_line(line, path_of(manifest, param), layout_json(layout_of(manifest, param), manifest.mesh));
  return line;
}

}  // namespace tpplan
