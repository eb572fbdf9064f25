#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "emit/read_json_specs.h"
#include "sharding/placement.h"

namespace tpplan {
namespace {

// Converts "_StridedShard(0, split_factor=4)" to the manifest's form; other placements are unchanged.
std::string manifest_text(std::string_view text) {
  std::string out(text.substr(text.starts_with('_') ? 1 : 0));
  for (const std::string_view name : {"split_factor=", "dim=", "sf="}) {
    if (const size_t at = out.find(name); at != std::string::npos) out.erase(at, name.size());
  }
  return out;
}

bool read_placements(const JsonTree& tree, uint32_t at, const Mesh& mesh, std::vector<Placement>& placements,
                     Diagnostics& diagnostics) {
  for (uint32_t i = at + 1; i < tree.nodes[at].end; i = tree.nodes[i].end) {
    const JsonNode& node = tree.nodes[i];
    if (!expect_json_kind(tree.file, node, JsonKind::String, "a placement", diagnostics)) return false;
    Placement& placement = placements.emplace_back();
    const bool good = parse_placement(manifest_text(node.text), placement) && placement.dim >= 0 &&
                      placement.kind != PlacementKind::Partial;
    if (!good) {
      return report_specs_error(diagnostics, value_span(tree.file, node),
                                fmt::format("`{}` is not a placement of a parameter", node.text),
                                "write Replicate(), Shard(0) or _StridedShard(0, split_factor=4); dims count from 0");
    }
  }
  return placements.size() == mesh.axes.size() ||
         report_specs_error(diagnostics, value_span(tree.file, tree.nodes[at]),
                            fmt::format("{} placements, but the mesh {} has {} axes", placements.size(), to_text(mesh),
                                        mesh.axes.size()));
}

// Returns the number of segments of a dim: the split factor of the rightmost axis that shards it. Split factors also
// count axes to the right, but this axis has none.
int64_t segments_at(const std::vector<Placement>& placements, int dim) {
  const auto last = std::find_if(placements.rbegin(), placements.rend(), [dim](const Placement& p) {
    return p.kind != PlacementKind::Replicate && p.dim == dim;
  });
  return last != placements.rend() && last->kind == PlacementKind::StridedShard ? last->split_factor : 1;
}

// Returns the placements that the axes would have if no dim had segments: with smaller split factors.
// `factors_count_segments` is false for the placements that torch assigns to FSDP after a packed style: their split
// factors count only the axes to the right.
std::vector<Placement> without_segments(std::vector<Placement> placements, bool factors_count_segments) {
  const std::vector<Placement> written = placements;
  std::vector<bool> seen(64);
  for (size_t i = placements.size(); i-- > 0;) {
    Placement& placement = placements[i];
    if (placement.kind == PlacementKind::Replicate) continue;
    const bool is_rightmost = !seen[static_cast<size_t>(placement.dim)];
    seen[static_cast<size_t>(placement.dim)] = true;
    const int64_t segments = is_rightmost || factors_count_segments ? segments_at(written, placement.dim) : 1;
    if (placement.split_factor % segments == 0) placement.split_factor /= segments;
    if (placement.split_factor == 1) placement.kind = PlacementKind::Shard;
  }
  return placements;
}

// Reads placements into a spec. They do not specify the number of dims, so the spec ends at the last sharded dim. Split
// factors are read as tpplan writes them, or, if no spec has these, as torch writes them.
bool read_placed_spec(const JsonTree& tree, uint32_t at, const Mesh& mesh, NamedSpec& named, Diagnostics& diagnostics) {
  std::vector<Placement> placements;
  if (!read_placements(tree, at, mesh, placements, diagnostics)) return false;
  size_t ndim = 0;
  for (const Placement& placement : placements) {
    if (placement.kind == PlacementKind::Replicate) continue;
    ndim = std::max(ndim, static_cast<size_t>(placement.dim) + 1);
    named.has_segments = named.has_segments || segments_at(placements, placement.dim) > 1;
  }
  return spec_of(without_segments(placements, true), mesh, ndim, named.spec) ||
         spec_of(without_segments(placements, false), mesh, ndim, named.spec) ||
         report_specs_error(
             diagnostics, value_span(tree.file, tree.nodes[at]),
             fmt::format("a split factor of `{}` is not the product of axes to its right", tree.nodes[at].key));
}

}  // namespace

bool read_torch_specs(const SourceFile& file, SpecsFile& specs, Diagnostics& diagnostics) {
  specs.has_all_dims = false;
  return read_json_specs(file, {"mesh_shape", "mesh_dim_names", "parameters", read_placed_spec}, specs, diagnostics);
}

}  // namespace tpplan
