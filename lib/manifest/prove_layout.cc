#include "manifest/prove_layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "sharding/placed_intervals.h"

namespace tpplan {
namespace {

constexpr unsigned __int128 kMaxElements = static_cast<unsigned __int128>(1) << 63;

bool has_too_many_elements(const std::vector<int64_t>& shape) {
  unsigned __int128 elements = 1;
  for (const int64_t size : shape) {
    if (size > 0 && elements < kMaxElements) elements *= static_cast<unsigned __int128>(size);
  }
  return elements >= kMaxElements;
}

}  // namespace

// Recomputes all fields that follow from shape, spec and mesh, so that later code can rely on their consistency. Checks
// the number of dims, the number of elements and the legality first, because the rest requires them.
bool prove_layout(ManifestReader& reader, const ParamLayout& layout, std::string_view path, const JsonNode& node) {
  const Mesh& mesh = reader.manifest.mesh;
  const Sharding& sharding = layout.sharding;
  const auto wrong = [&](std::string message) {
    return report_error(reader, Code::InconsistentManifest, node, std::move(message));
  };
  const auto contradiction = [&](std::string_view what) {
    return wrong(fmt::format("{} of `{}` does not match its spec {}", what, path, to_text(sharding.spec, mesh)));
  };
  if (sharding.spec.size() != layout.shape.size())
    return wrong(fmt::format("the spec of `{}` has a different number of dims than its shape", path));
  if (has_too_many_elements(layout.shape)) return wrong(fmt::format("`{}` has 2^63 elements or more", path));
  if (!check_sharding(layout.shape, sharding, mesh, reader.manifest.uneven).empty()) {
    return wrong(fmt::format("the spec {} of `{}` is not valid for its shape", to_text(sharding.spec, mesh), path));
  }
  if (layout.placements != placements_of(sharding, mesh)) return contradiction("`placements`");
  const auto shapes = list_local_shapes(layout.shape, sharding, mesh);
  if (shapes.empty() || layout.local_shapes != shapes) return contradiction("`local_shape`");
  if (layout.replicas != device_count(mesh) / shard_count(sharding.spec, mesh)) return contradiction("`replicas`");
  for (const GradReduce& reduce : layout.grad_reduce) {
    const bool cuts = uses_axis(sharding.spec, reduce.axis);
    if (reduce.kind != (cuts ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce) ||
        std::ranges::count(layout.grad_reduce, reduce.axis, &GradReduce::axis) != 1)
      return contradiction("`grad_reduce`");
  }
  return true;
}

// Compares `offsets` with those of the spec, and the shards of selected ranks with those of the placements.
bool prove_offsets(ManifestReader& reader, const ParamLayout& layout,
                   const std::optional<std::vector<DimOffsets>>& offsets, std::string_view path, const JsonNode& node) {
  const Mesh& mesh = reader.manifest.mesh;
  const Sharding& sharding = layout.sharding;
  if (!offsets && !is_replicated(sharding.spec))
    return report_error(reader, Code::InvalidManifest, node, fmt::format("`offsets` of `{}` is missing", path));
  if (offsets.value_or(std::vector<DimOffsets>{}) != offsets_of(layout.shape, sharding, mesh))
    return report_error(
        reader, Code::InconsistentManifest, node,
        fmt::format("`offsets` of `{}` does not match its spec {}", path, to_text(sharding.spec, mesh)));
  for (const int64_t rank : sample_ranks(mesh)) {
    if (const std::string why = placement_mismatch(layout.shape, sharding, mesh, rank); !why.empty())
      return report_error(reader, Code::InconsistentManifest, node,
                          fmt::format("`{}` is not sharded as its placements require: {}", path, why));
  }
  return true;
}

}  // namespace tpplan
