#include "emit/emit_torch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "emit/emit_text.h"
#include "sharding/shard_slice.h"

namespace tpplan {
namespace {

// ---- placements that torch reads as the spec ----

bool has_unequal_segments(const ParamLayout& layout, const Mesh&) { return !layout.placements; }

// Returns the placements for torch; ignores segments that torch cannot express.
std::vector<Placement> torch_placements(const ParamLayout& layout, const Mesh& mesh) {
  if (!layout.placements) return *placements_of({.spec = layout.sharding.spec, .segments = {}}, mesh);
  std::vector<Placement> placements = *layout.placements;
  // The split factor of a StridedShard is the number of shards of its dim before its axis shards it: the product of the
  // major axes to its right, times the segments.
  for (size_t dim = 0; dim < layout.sharding.spec.size(); ++dim) {
    const DimAxes& axes = layout.sharding.spec[dim];
    const auto segments = static_cast<int64_t>(segments_of(layout.sharding, dim).size());
    for (size_t i = 0; i < axes.size() && segments > 1; ++i) {
      int64_t pieces = segments;
      for (size_t k = 0; k < i; ++k) pieces *= axes[k] > axes[i] ? mesh.axes[axes[k]].size : 1;
      placements[axes[i]] = {.kind = PlacementKind::StridedShard, .dim = static_cast<int>(dim), .split_factor = pieces};
    }
  }
  return placements;
}

// ---- the shards that torch computes from placements ----

// Appends the part [from, to) of the concatenated intervals.
void append_part(const std::vector<Interval>& runs, Interval part, std::vector<Interval>& out) {
  int64_t at = 0;
  for (const Interval& run : runs) {
    const Interval inside{std::max(part.begin, at), std::min(part.end, at + length(run))};
    const Interval piece{run.begin + inside.begin - at, run.begin + inside.end - at};
    at += length(run);
    if (length(inside) <= 0) continue;
    if (!out.empty() && out.back().end == piece.begin)
      out.back().end = piece.end;
    else
      out.push_back(piece);
  }
}

// Returns the intervals that torch assigns: it applies placements from left to right, each to the result of the one
// before (Shard._split_tensor, _StridedShard._split_tensor).
std::vector<Interval> torch_intervals(int64_t size, size_t dim, const std::vector<Placement>& placements,
                                      const Mesh& mesh, std::span<const int64_t> coordinate) {
  std::vector<Interval> runs = {{0, size}};
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    const Placement& placement = placements[axis];
    if (placement.kind == PlacementKind::Replicate || static_cast<size_t>(placement.dim) != dim) continue;
    Interval whole;
    for (const Interval& run : runs) whole.end += length(run);
    const int64_t pieces = placement.kind == PlacementKind::StridedShard ? placement.split_factor : 1;
    std::vector<Interval> kept;
    for (int64_t i = 0; i < pieces; ++i)
      append_part(runs, chunk(chunk(whole, pieces, i), mesh.axes[axis].size, coordinate[axis]), kept);
    runs = std::move(kept);
  }
  return runs;
}

// Joins adjacent intervals and removes empty ones.
std::vector<Interval> joined(const std::vector<Interval>& runs) {
  std::vector<Interval> out;
  for (const Interval& run : runs) append_part({run}, {0, length(run)}, out);
  return out;
}

// Compares all shards of the dim: a manifest has at most kMaxLocalShapes if they are uneven.
bool dim_is_misread(const ParamLayout& layout, size_t dim, const std::vector<Placement>& placements, const Mesh& mesh) {
  return any_shard(layout.sharding.spec[dim], mesh, [&](const std::vector<int64_t>& coordinate, int64_t) {
    const auto slice = shard_slice(layout.shape, layout.sharding, mesh, coordinate);
    return joined(slice[dim]) != torch_intervals(layout.shape[dim], dim, placements, mesh, coordinate);
  });
}

// True if torch computes other shards from the placements. For equal shards of equal segments it never does.
bool is_misread(const ParamLayout& layout, const Mesh& mesh) {
  if (!layout.placements) return false;
  const std::vector<Placement> placements = torch_placements(layout, mesh);
  const bool even = is_even(layout.shape, layout.sharding, mesh);
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    const std::span<const int64_t> segments = segments_of(layout.sharding, dim);
    const bool equal = std::adjacent_find(segments.begin(), segments.end(), std::not_equal_to<>()) == segments.end();
    if (layout.sharding.spec[dim].size() < 2 || (even && equal)) continue;
    if (dim_is_misread(layout, dim, placements, mesh)) return true;
  }
  return false;
}

// ---- text ----

std::string constructor_text(const Placement& placement) {
  switch (placement.kind) {
    case PlacementKind::Shard:
      return fmt::format("Shard({})", placement.dim);
    case PlacementKind::StridedShard:
      return fmt::format("_StridedShard({}, split_factor={})", placement.dim, placement.split_factor);
    default:
      return "Replicate()";
  }
}

std::string placements_text(const ParamLayout& layout, const Mesh& mesh) {
  std::vector<std::string> items;
  for (const Placement& placement : torch_placements(layout, mesh)) items.push_back(constructor_text(placement));
  return list_text(items);
}

bool has_uneven_layout(const Manifest& manifest) {
  return std::any_of(manifest.layouts.begin(), manifest.layouts.end(),
                     [&](const ParamLayout& layout) { return has_uneven_shards(layout, manifest.mesh); });
}

// Converts "[a, b]" to "(a, b)", and a single item to "(a,)".
std::string tuple_text(std::string list, size_t items) {
  return fmt::format("({}{})", list.substr(1, list.size() - 2), items == 1 ? "," : "");
}

std::string python_head(const Manifest& manifest) {
  const bool strided = std::any_of(manifest.layouts.begin(), manifest.layouts.end(), [&](const ParamLayout& layout) {
    return placements_text(layout, manifest.mesh).find("_StridedShard") != std::string::npos;
  });
  return fmt::format(
      "# Written by tpplan export --to torch --python.\n"
      "from torch.distributed.tensor import Replicate, Shard\n{}\n"
      "# init_device_mesh(device_type, mesh_shape, mesh_dim_names=mesh_dim_names)\n"
      "mesh_shape = {}\nmesh_dim_names = {}\n\n"
      "# distribute_tensor(parameter, mesh, placements[path])\n"
      "placements = {{\n",
      strided ? "from torch.distributed.tensor.placement_types import _StridedShard\n" : "",
      tuple_text(axis_sizes_text(manifest.mesh), manifest.mesh.axes.size()),
      tuple_text(axis_names_text(manifest.mesh), manifest.mesh.axes.size()));
}

}  // namespace

const FormatLimit kTorchLimitRows[2] = {
    {has_unequal_segments, "the segments of {}, which have different sizes, are sharded separately",
     "the dim is sharded as a single segment, so ranks hold other elements"},
    {is_misread, "a dim of {} is sharded unevenly over several axes",
     "only the placements are written, and torch makes other shards from them"},
};

bool write_torch(const Manifest& manifest, const Sink& sink) {
  const Mesh& mesh = manifest.mesh;
  JsonWriter json{.sink = &sink};
  begin_document(json, mesh, "mesh_shape", "mesh_dim_names");
  next_line(json, 1);
  write_field(json, "uneven", has_uneven_layout(manifest) ? "torch" : "error");
  next_line(json, 1);
  write_key(json, "parameters");
  begin_object(json);
  write_params(json, manifest, [&](JsonWriter& out, const ParamLayout& layout) {
    write_array(out, torch_placements(layout, mesh),
                [&](const Placement& placement) { write_value(out, constructor_text(placement)); });
  });
  return end_document(json);
}

bool write_torch_python(const Manifest& manifest, const Sink& sink) {
  return write_params(manifest, sink,
                      {.head = python_head(manifest),
                       .layout_text = [&](const ParamLayout& layout) { return placements_text(layout, manifest.mesh); },
                       .append_line =
                           [](std::string& line, std::string_view path, const std::string& placements) {
                             line += fmt::format("    {}: {}", json_text(path), placements);
                           },
                       .tail = ",\n}\n"});
}

}  // namespace tpplan
