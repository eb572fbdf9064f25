#include "manifest/manifest.h"

#include <algorithm>

#include "sharding/shard_slice.h"
#include "sharding/tensor_size.h"

namespace tpplan {

std::string to_text(std::span<const GradReduce> reductions, const Mesh& mesh) {
  std::string text;
  for (const GradReduce& reduce : reductions) {
    text.append(text.empty() ? "" : ", ").append(to_text(reduce.kind)).append(" over ");
    text += axis_name(mesh, reduce.axis);
    text.append(" by ").append(to_text(reduce.by));
  }
  return text;
}

std::string norm_weight_text(const ParamLayout& layout) { return "1/" + std::to_string(layout.norm_divisor); }

std::string_view path_of(const Manifest& manifest, const ManifestParam& param) {
  return std::string_view(manifest.names).substr(param.name_begin, param.name_length);
}

std::string_view path_of(const Manifest& manifest, const ManifestModule& module) {
  return std::string_view(manifest.names).substr(module.name_begin, module.name_length);
}

ManifestPaths paths_of(const Manifest& manifest) {
  return {.parameter = [&manifest](uint32_t i) { return path_of(manifest, manifest.parameters[i]); },
          .buffer = [&manifest](uint32_t i) { return path_of(manifest, manifest.buffers[i]); },
          .module = [&manifest](uint32_t i) { return path_of(manifest, manifest.modules[i]); }};
}

const ParamLayout& layout_of(const Manifest& manifest, const ManifestParam& param) {
  return manifest.layouts[param.layout];
}

const ModuleLayout& layout_of(const Manifest& manifest, const ManifestModule& module) {
  return manifest.module_layouts[module.layout];
}

std::vector<AxisId> axes_in_mesh_order(const PartitionSpec& spec, size_t axis_count) {
  std::vector<AxisId> axes;
  for (size_t axis = 0; axis < axis_count; ++axis) {
    if (uses_axis(spec, static_cast<AxisId>(axis))) axes.push_back(static_cast<AxisId>(axis));
  }
  return axes;
}

// Lists shapes in row-major order over the axes of the spec in mesh order, the last axis fastest. local_shape_of relies
// on this order.
std::vector<std::vector<int64_t>> list_local_shapes(std::span<const int64_t> shape, const Sharding& sharding,
                                                    const Mesh& mesh) {
  std::vector<int64_t> coordinate(mesh.axes.size(), 0);
  if (is_even(shape, sharding, mesh)) return {local_shape(shape, sharding, mesh, coordinate)};
  const std::vector<AxisId> axes = axes_in_mesh_order(sharding.spec, mesh.axes.size());
  const int64_t count = shard_count(sharding.spec, mesh);
  if (count > kMaxLocalShapes) return {};
  std::vector<std::vector<int64_t>> shapes;
  for (int64_t i = 0; i < count; ++i) {
    shapes.push_back(local_shape(shape, sharding, mesh, coordinate));
    for (size_t k = axes.size(); k-- > 0;) {
      if (++coordinate[axes[k]] < mesh.axes[axes[k]].size) break;
      coordinate[axes[k]] = 0;
    }
  }
  const bool all_equal = std::adjacent_find(shapes.begin(), shapes.end(), std::not_equal_to<>()) == shapes.end();
  if (all_equal) shapes.resize(1);
  return shapes;
}

// Looks up the shape by the coordinate's index in the order of list_local_shapes.
const std::vector<int64_t>& local_shape_of(const ParamLayout& layout, const Mesh& mesh,
                                           std::span<const int64_t> coordinate) {
  if (layout.local_shapes.size() == 1) return layout.local_shapes[0];
  size_t index = 0;
  for (const AxisId axis : axes_in_mesh_order(layout.sharding.spec, mesh.axes.size())) {
    index = index * static_cast<size_t>(mesh.axes[axis].size) + static_cast<size_t>(coordinate[axis]);
  }
  return layout.local_shapes[index];
}

namespace {

bool add(uint64_t& sum, uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return b != kTooManyBytes && !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum) &&
         sum <= kMostInTotal;
}

// Adds the bytes of uneven layouts to each rank. Returns false on overflow.
bool add_uneven(const Manifest& manifest, const std::vector<uint64_t>& uses, std::vector<uint64_t>& per_rank) {
  bool good = true;
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    if (uses[i] == 0 || layout.local_shapes.size() == 1) continue;
    for (size_t rank = 0; rank < per_rank.size(); ++rank) {
      const std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, static_cast<int64_t>(rank));
      good = add(per_rank[rank], uses[i], bytes_of(layout.dtype, local_shape_of(layout, manifest.mesh, coordinate))) &&
             good;
    }
  }
  return good;
}

}  // namespace

// Counts the first parameter of each tie.
std::vector<bool> untied_params(const Manifest& manifest) {
  std::vector<bool> counted(manifest.parameters.size(), true);
  for (const std::vector<uint32_t>& names : manifest.tied) {
    for (size_t i = 1; i < names.size(); ++i) counted[names[i]] = false;
  }
  return counted;
}

std::vector<uint64_t> tensors_by_layout(const Manifest& manifest) {
  const std::vector<bool> counted = untied_params(manifest);
  std::vector<uint64_t> tensors(manifest.layouts.size());
  for (size_t i = 0; i < manifest.parameters.size(); ++i) tensors[manifest.parameters[i].layout] += counted[i];
  return tensors;
}

uint64_t global_bytes(const ParamLayout& layout) { return bytes_of(layout.dtype, layout.shape); }

std::vector<AxisId> data_axes_of(const Manifest& manifest) {
  std::vector<AxisId> axes;
  for (size_t i = 0; i < manifest.mesh.axes.size(); ++i) {
    const auto axis = static_cast<AxisId>(i);
    const bool data = manifest.data && std::ranges::find(manifest.data->axes, axis) != manifest.data->axes.end();
    if (data || (manifest.fsdp && manifest.fsdp->axis == axis)) axes.push_back(axis);
  }
  return axes;
}

AxisId units_axis(const Manifest& manifest) {
  // A plan without named units has the unit "", the whole model.
  const auto is_named = [](const std::string& path) { return !path.empty(); };
  return manifest.fsdp && std::ranges::any_of(manifest.fsdp->units, is_named) ? manifest.fsdp->axis : kNoAxis;
}

std::vector<ParamStep> steps_of(const Manifest& manifest, const ParamLayout& layout) {
  return param_steps(layout.shape, layout.sharding, layout.grad_reduce, data_axes_of(manifest), manifest.mesh);
}

uint64_t payload_bytes(const ParamLayout& layout, const ParamStep& step) {
  return byte_size(layout.dtype, step.elements);
}

uint64_t sent_bytes(const ParamLayout& layout, const ParamStep& step, const Mesh& mesh) {
  const Collective& collective = step.step.collective;
  return ring_bytes(collective.kind, payload_bytes(layout, step), mesh.axes[collective.axis].size);
}

int64_t model_shard_count(const Manifest& manifest) {
  std::vector<bool> shards(manifest.mesh.axes.size(), true);
  if (manifest.data) {
    for (const AxisId axis : manifest.data->axes) shards[axis] = manifest.fsdp && manifest.fsdp->axis == axis;
  }
  for (const ParamLayout& layout : manifest.layouts) {
    for (const DimAxes& axes : layout.sharding.spec) {
      for (const AxisId axis : axes) shards[axis] = true;
    }
  }
  int64_t count = 1;
  for (size_t axis = 0; axis < shards.size(); ++axis) count *= shards[axis] ? manifest.mesh.axes[axis].size : 1;
  return count;
}

// Sums over layouts times their number of tensors, because a million parameters have a dozen layouts. Only uneven
// layouts are summed per rank.
bool sum_totals(Manifest& manifest) {
  const std::vector<uint64_t> uses = tensors_by_layout(manifest);
  ManifestTotals totals;
  uint64_t even = 0, uneven_max = 0;
  bool good = true;
  for (size_t i = 0; i < uses.size(); ++i) {
    const ParamLayout& layout = manifest.layouts[i];
    const uint64_t bytes = bytes_of(layout.dtype, layout.shape);
    totals.parameters += uses[i];
    good = add(totals.elements, uses[i], elements_of(layout.shape)) && add(totals.bytes, uses[i], bytes) && good;
    if (is_fully_replicated(layout.sharding.spec, manifest.mesh))
      good = add(totals.replicated_bytes_per_rank, uses[i], bytes) && good;
    if (layout.local_shapes.size() == 1)
      good = add(even, uses[i], bytes_of(layout.dtype, layout.local_shapes[0])) && good;
    else
      good = add(uneven_max, uses[i], bytes_of(layout.dtype, layout.local_shapes[0])) &&
             good;  // the first shard is the largest
  }
  const int64_t ranks = device_count(manifest.mesh);
  const auto shards = static_cast<uint64_t>(model_shard_count(manifest));
  totals.ideal_bytes_per_rank = totals.bytes / shards + (totals.bytes % shards != 0);
  if (ranks <= kMaxListedRanks) {
    totals.bytes_per_rank.assign(static_cast<size_t>(ranks), even);
    good = add_uneven(manifest, uses, totals.bytes_per_rank) && good;
  }
  // Rank 0 has the first shard of all layouts, which is the largest.
  totals.max_bytes_per_rank = even + uneven_max;
  manifest.totals = std::move(totals);
  return good;
}

}  // namespace tpplan
