#include "exec/run/list_matmuls.h"

#include <spdlog/fmt/fmt.h>

#include "base/keyed_hash.h"
#include "base/path_patterns.h"
#include "base/starred_path.h"
#include "base/text.h"

namespace tpplan {
namespace {

// Returns a key of everything that a matmul depends on.
std::string key_of(const Manifest& manifest, const std::string& pattern, const ModuleWeight& weight,
                   const ModuleLayout& module) {
  const ParamLayout& layout = layout_of(manifest, *weight.param);
  std::string key = fmt::format("{} {} {} {} {}", pattern, weight.is_embedding, weight.out,
                                fmt::join(layout.shape, ","), to_text(layout.sharding.spec, manifest.mesh));
  for (const DimSegments& segments : layout.sharding.segments)
    key += fmt::format(" s{}:{}", segments.dim, fmt::join(segments.sizes, ","));
  for (const GradReduce& reduce : layout.grad_reduce)
    key += fmt::format(" g{}.{}", reduce.axis, static_cast<int>(reduce.kind));
  for (const auto* values : {&module.inputs, &module.outputs}) {
    key += " |";
    for (const ManifestValue& value : *values) {
      for (const auto* placements : {&value.from, &value.to}) key += *placements ? layout_text(**placements) : "null";
      if (value.gradient) key += layout_text(value.gradient->from) + layout_text(value.gradient->to);
      for (const auto* steps : {&value.forward, &value.backward}) {
        key += " :";
        for (const auto& [c, after, pieces] : *steps)
          key += fmt::format(" {}.{}.{}.{}", static_cast<int>(c.kind), c.axis, c.dim, c.from_dim);
      }
    }
  }
  return key;
}

}  // namespace

std::string layout_text(const std::vector<Placement>& placements) {
  std::vector<std::string> parts;
  for (const Placement& p : placements) parts.push_back(to_text(p));
  return "[" + join(parts, ", ") + "]";
}

bool is_reduced_above(const Manifest& manifest, std::string_view path, AxisId axis, bool gradient) {
  for (const ManifestModule& module : manifest.modules) {
    const std::string_view above = path_of(manifest, module);
    const bool around = above.empty() || (path.size() > above.size() && path.starts_with(above) &&
                                          std::string_view("./").find(path[above.size()]) != std::string_view::npos);
    if (!around || path == above) continue;
    const ModuleLayout& layout = layout_of(manifest, module);
    for (const ManifestValue& value : gradient ? layout.inputs : layout.outputs) {
      const std::vector<Placement>*from = nullptr, *to = nullptr;
      if (gradient && value.gradient) from = &value.gradient->from, to = &value.gradient->to;
      if (!gradient && value.from && value.to) from = &*value.from, to = &*value.to;
      if (from != nullptr && (*from)[axis].kind == PlacementKind::Partial && (*to)[axis].kind != PlacementKind::Partial)
        return true;
    }
  }
  return false;
}

std::vector<ModuleMatmul> list_matmuls(const Manifest& manifest) {
  const auto weights = module_weights(manifest);
  std::vector<ModuleMatmul> matmuls;
  std::vector<std::vector<std::string_view>> paths;  // of each
  TextMap<std::string, size_t> known;
  for (const ManifestModule& module : manifest.modules) {
    const std::string_view path = path_of(manifest, module);
    const auto weight = weights.find(path);
    if (weight == weights.end()) continue;
    const auto [place, is_new] = known.try_emplace(
        key_of(manifest, starred_path(path), weight->second, layout_of(manifest, module)), matmuls.size());
    if (is_new) {
      matmuls.push_back({.path = std::string(path), .weight = weight->second, .layout = &layout_of(manifest, module)});
      paths.emplace_back();
    }
    ++matmuls[place->second].count;
    paths[place->second].push_back(path);
  }
  for (size_t i = 0; i < matmuls.size(); ++i) matmuls[i].pattern = ranged_path(paths[i]);
  return matmuls;
}

}  // namespace tpplan
