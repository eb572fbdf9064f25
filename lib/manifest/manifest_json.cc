#include "manifest/manifest_json.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"

namespace tpplan {
namespace {

template <typename Range, typename Write>
std::string list(const Range& items, Write write) {
  std::string out = "[";
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    out += write(item);
  }
  return out + "]";
}

std::string axes_json(const std::vector<AxisId>& axes, const Mesh& mesh) {
  return list(axes, [&](AxisId axis) { return json_text(mesh.axes[axis].name); });
}

std::string collectives_json(const std::vector<Collective>& steps, const Mesh& mesh) {
  return list(steps, [&](const Collective& step) {
    std::string out =
        fmt::format("{{\"kind\": \"{}\", \"axis\": {}", to_text(step.kind), json_text(mesh.axes[step.axis].name));
    if (step.kind != CollectiveKind::AllReduce) out += fmt::format(", \"dim\": {}", step.dim);
    if (step.kind == CollectiveKind::AllToAll) out += fmt::format(", \"from_dim\": {}", step.from_dim);
    return out + "}";
  });
}

std::string value_json(const ManifestValue& value, const Mesh& mesh) {
  std::string out = value.kwarg.empty() ? fmt::format("{{\"arg\": {}", value.arg)
                                        : fmt::format("{{\"kwarg\": {}", json_text(value.kwarg));
  out += fmt::format(", \"from\": {}, \"to\": {}", placements_json(value.from), placements_json(value.to));
  if (value.use_local) out += fmt::format(", \"use_local\": {}", *value.use_local);
  if (!value.forward.empty()) out += fmt::format(", \"forward\": {}", collectives_json(value.forward, mesh));
  if (!value.backward.empty()) out += fmt::format(", \"backward\": {}", collectives_json(value.backward, mesh));
  return out + "}";
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string names_json(std::span<const std::string> names) { return list(names, json_text); }

std::string sizes_json(std::span<const int64_t> sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

std::string shapes_json(std::span<const std::vector<int64_t>> shapes) {
  return list(shapes, [](const auto& s) { return sizes_json(s); });
}

std::string mesh_json(const Mesh& mesh) {
  return list(mesh.axes, [](const MeshAxis& axis) {
    return fmt::format("{{\"name\": {}, \"size\": {}}}", json_text(axis.name), axis.size);
  });
}

std::string spec_json(const PartitionSpec& spec, const Mesh& mesh) {
  return list(spec, [&](const DimAxes& axes) -> std::string {
    return axes.empty() ? "null" : axes.size() == 1 ? json_text(mesh.axes[axes[0]].name) : axes_json(axes, mesh);
  });
}

std::string placements_json(const std::optional<std::vector<Placement>>& placements) {
  return placements ? list(*placements, [](const Placement& p) { return json_text(to_text(p)); }) : "null";
}

std::string segments_json(std::span<const DimSegments> segments) {
  std::string out;
  for (const DimSegments& s : segments)
    out += fmt::format("{}\"{}\": {}", out.empty() ? "{" : ", ", s.dim, sizes_json(s.sizes));
  return out + "}";
}

std::string grad_reduce_json(std::span<const GradReduce> reductions, const Mesh& mesh) {
  return list(reductions, [&](const GradReduce& reduce) {
    return fmt::format("{{\"axis\": {}, \"kind\": \"{}\"}}", json_text(mesh.axes[reduce.axis].name),
                       reduce.kind == GradReduceKind::AllReduce ? "all_reduce" : "reduce_scatter");
  });
}

std::string values_json(std::span<const ManifestValue> values, const Mesh& mesh) {
  return list(values, [&](const ManifestValue& value) { return value_json(value, mesh); });
}

std::string data_json(const std::optional<ManifestData>& data, const Mesh& mesh) {
  return data ? fmt::format("{{\"axes\": {}, \"dim\": {}}}", axes_json(data->axes, mesh), data->dim) : "null";
}

std::string init_json(std::span<const Distribution> distributions) {
  return fmt::format("{{\"algorithm\": \"{}\", \"distributions\": {}}}", kInitAlgorithm,
                     list(distributions, distribution_json));
}

std::string fsdp_json(const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh) {
  if (!fsdp) return "null";
  return fmt::format("{{\"axis\": {}, \"policy\": {}, \"min_weight_size\": {}, \"units\": {}}}",
                     json_text(mesh.axes[fsdp->axis].name), json_text(fsdp->policy), fsdp->min_weight_size,
                     names_json(fsdp->units));
}

}  // namespace tpplan
