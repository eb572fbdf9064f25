#include "run/schedule.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <unordered_map>

#include "manifest/path_pattern.h"
#include "run/exact_tensor.h"
#include "run/module_weights.h"

namespace tpplan {
namespace {

constexpr int64_t kUnknownFeatures = 64;

struct Builder {
  const Manifest& manifest;
  const ScheduleOptions& options;
  std::unordered_map<std::string_view, ModuleWeight> weights;
  std::unordered_map<std::string_view, std::pair<int64_t, int64_t>>
      inner;  // of a container: `in` of the first linear inside it, `out` of the last
  DType float32 = 0, int64 = 0;
  std::vector<ScheduleEntry> schedule;
  std::unordered_map<std::string, size_t> known;  // what an entry does -> its place
};

std::string key_of(const ScheduleEntry& entry) {
  std::string key =
      fmt::format("{} {} {} {}", static_cast<int>(entry.part), entry.pattern, fmt::join(entry.shape, ","), entry.dtype);
  for (const DimSegments& segments : entry.segments)
    key += fmt::format(" s{}:{}", segments.dim, fmt::join(segments.sizes, ","));
  for (const Placement& placement : entry.from) key += ' ' + to_text(placement);
  for (const Collective& c : entry.collectives)
    key += fmt::format(" {}.{}.{}.{}", static_cast<int>(c.kind), c.axis, c.dim, c.from_dim);
  return key;
}

void add(Builder& b, ScheduleEntry entry) {
  if (entry.collectives.empty()) return;
  entry.pattern = path_pattern(entry.path);
  const auto [place, is_new] = b.known.try_emplace(key_of(entry), b.schedule.size());
  if (is_new) b.schedule.push_back(std::move(entry));
  ++b.schedule[place->second].count;
}

void find_inner_features(Builder& b) {
  for (const ManifestParam& param : b.manifest.parameters) {
    std::string_view path = path_of(b.manifest, param);
    path = path.substr(0, std::min(path.find_last_of("./"), path.size()));
    const auto own = b.weights.find(path);
    if (own == b.weights.end() || own->second.is_embedding || own->second.param != &param) continue;
    const std::vector<int64_t>& shape = layout_of(b.manifest, param).shape;
    while (!path.empty()) {
      const size_t end = path.find_last_of("./");
      path = path.substr(0, end == std::string_view::npos ? 0 : end);
      const auto [place, is_new] = b.inner.try_emplace(path, shape[own->second.in], 0);
      place->second.second = shape[own->second.out];
    }
  }
}

// The features of a value at a module's boundary.
int64_t features_of(const Builder& b, std::string_view module, SchedulePart part) {
  const auto own = b.weights.find(module);
  if (own != b.weights.end()) {
    const ModuleWeight& weight = own->second;
    return layout_of(b.manifest, *weight.param).shape[part == SchedulePart::Input ? weight.in : weight.out];
  }
  const auto inner = b.inner.find(module);
  if (inner == b.inner.end()) return kUnknownFeatures;
  return part == SchedulePart::Input ? inner->second.first : inner->second.second;
}

// The shape of a value whose dims these placements name: one sequence for each piece of the batch.
std::vector<int64_t> value_shape(const Builder& b, std::span<const Placement> from, std::span<const Placement> to,
                                 size_t ndim, int64_t features) {
  int64_t batch = 1;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    size_t dims = ndim;
    for (const Placement& p : {from[axis], to[axis]}) {
      if (!is_shard(p)) continue;
      dims = std::max(dims, p.dim < 0 ? static_cast<size_t>(-p.dim) : static_cast<size_t>(p.dim) + 1);
    }
    ndim = std::max(ndim, dims);
  }
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const bool cuts_batch = std::ranges::any_of(
        std::initializer_list<Placement>{from[axis], to[axis]},
        [&](const Placement& p) { return is_shard(p) && (p.dim == 0 || p.dim + static_cast<int>(ndim) == 0); });
    if (cuts_batch) batch *= b.manifest.mesh.axes[axis].size;
  }
  std::vector<int64_t> shape(ndim, 2);
  shape[0] = batch;
  if (ndim > 1) shape[1] = b.options.tokens;
  if (ndim > 2) shape[ndim - 1] = features;
  return shape;
}

// What a gradient looks like that arrives at `to`: sums are open on the axes over which it is reduced on its way.
std::vector<Placement> arriving(const ManifestValue& value) {
  std::vector<Placement> placements = *value.to;
  for (const Collective& c : value.backward) {
    if (c.kind == CollectiveKind::AllReduce || c.kind == CollectiveKind::ReduceScatter)
      placements[c.axis] = {.kind = PlacementKind::Partial};
  }
  for (Placement& placement : placements) {
    const bool reduced = std::ranges::any_of(value.backward, [&](const Collective& c) {
      return c.axis == static_cast<AxisId>(&placement - placements.data());
    });
    if (placement.kind == PlacementKind::Partial && !reduced) placement = {};
  }
  return placements;
}

void add_value(Builder& b, std::string_view module, const ManifestValue& value, SchedulePart part) {
  if (!value.from || !value.to) return;
  const auto own = b.weights.find(module);
  const bool ids = part == SchedulePart::Input && own != b.weights.end() && own->second.is_embedding;
  ScheduleEntry entry{.part = part,
                      .path = std::string(module),
                      .dtype = ids ? b.int64 : b.float32,
                      .from = *value.from,
                      .collectives = value.forward};
  entry.shape = value_shape(b, *value.from, *value.to, ids ? 2 : 3, features_of(b, module, part));
  for (const Collective& c : value.forward) entry.after.push_back(placement_after(c, *value.to));
  add(b, entry);
  if (ids) return;  // ids have no gradient
  entry.part = SchedulePart::Gradient;
  entry.from = arriving(value);
  entry.collectives = value.backward;
  entry.after.clear();
  for (const Collective& c : value.backward) entry.after.push_back(placement_after(c, *value.from));
  add(b, std::move(entry));
}

void add_modules(Builder& b) {
  for (const ManifestModule& module : b.manifest.modules) {
    const ModuleLayout& layout = layout_of(b.manifest, module);
    for (const ManifestValue& value : layout.inputs)
      add_value(b, path_of(b.manifest, module), value, SchedulePart::Input);
    for (const ManifestValue& value : layout.outputs)
      add_value(b, path_of(b.manifest, module), value, SchedulePart::Output);
  }
}

// The dim that an axis cuts.
std::optional<int> dim_of(const PartitionSpec& spec, AxisId axis) {
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    if (std::ranges::find(spec[dim], axis) != spec[dim].end()) return static_cast<int>(dim);
  }
  return std::nullopt;
}

void add_steps(ScheduleEntry& entry, const std::vector<ScheduleStep>& steps) {
  for (const ScheduleStep& step : steps) {
    entry.collectives.push_back(step.collective);
    entry.after.push_back(step.after);
  }
}

void add_param(Builder& b, const ManifestParam& param) {
  const ParamLayout& layout = layout_of(b.manifest, param);
  const Mesh& mesh = b.manifest.mesh;
  const PartitionSpec& spec = layout.sharding.spec;
  ScheduleEntry entry{.part = SchedulePart::Gather,
                      .path = std::string(path_of(b.manifest, param)),
                      .shape = layout.shape,
                      .segments = layout.sharding.segments,
                      .dtype = layout.dtype,
                      .from = plain_placements(spec, mesh)};
  if (b.manifest.fsdp && dim_of(spec, b.manifest.fsdp->axis))
    add_steps(entry, steps_over(CollectiveKind::AllGather, b.manifest.fsdp->axis, spec, mesh));
  add(b, entry);
  entry.part = SchedulePart::Reduce;
  entry.collectives.clear();
  entry.after.clear();
  PartitionSpec summed = spec;  // how the gradient lies before its sums: the axes of these do not cut it yet
  for (const GradReduce& reduce : layout.grad_reduce) summed = without_axis(std::move(summed), reduce.axis);
  entry.from = plain_placements(summed, mesh);
  for (const GradReduce& reduce : layout.grad_reduce) entry.from[reduce.axis] = {.kind = PlacementKind::Partial};
  for (const GradReduce& reduce : layout.grad_reduce) {
    const bool scatter = reduce.kind == GradReduceKind::ReduceScatter;
    add_steps(entry,
              steps_over(scatter ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce, reduce.axis, spec, mesh));
  }
  add(b, std::move(entry));
}

}  // namespace

PartitionSpec without_axis(PartitionSpec spec, AxisId axis) {
  for (DimAxes& axes : spec) std::erase(axes, axis);
  return spec;
}

std::vector<Placement> plain_placements(const PartitionSpec& spec, const Mesh& mesh) {
  return *placements_of({.spec = spec, .segments = {}}, mesh);
}

std::vector<ScheduleStep> steps_over(CollectiveKind kind, AxisId axis, const PartitionSpec& spec, const Mesh& mesh) {
  const int dim = kind == CollectiveKind::AllReduce ? 0 : dim_of(spec, axis).value_or(0);
  DimAxes minor;
  if (kind != CollectiveKind::AllReduce)
    minor.assign(std::ranges::find(spec[static_cast<size_t>(dim)], axis) + 1, spec[static_cast<size_t>(dim)].end());
  const std::vector<Placement> after =
      plain_placements(kind == CollectiveKind::AllGather ? without_axis(spec, axis) : spec, mesh);
  std::vector<ScheduleStep> steps;
  for (size_t i = minor.size(); i-- > 0;)
    steps.push_back({{.kind = CollectiveKind::AllGather, .axis = minor[i], .dim = dim}, {}});
  steps.push_back(
      {{.kind = kind, .axis = axis, .dim = dim}, kind == CollectiveKind::ReduceScatter ? after[axis] : Placement{}});
  for (const AxisId cut : minor)
    steps.push_back({{.kind = CollectiveKind::LocalSlice, .axis = cut, .dim = dim}, after[cut]});
  return steps;
}

std::string_view to_text(SchedulePart part) {
  constexpr std::string_view names[] = {"input", "output", "gradient", "gather", "reduce"};
  return names[static_cast<size_t>(part)];
}

std::vector<ScheduleEntry> build_schedule(const Manifest& manifest, const ScheduleOptions& options) {
  Builder b{.manifest = manifest, .options = options, .weights = module_weights(manifest)};
  find_dtype("float32", b.float32);
  find_dtype("int64", b.int64);
  find_inner_features(b);
  add_modules(b);
  for (const ManifestParam& param : manifest.parameters) add_param(b, param);
  return std::move(b.schedule);
}

}  // namespace tpplan
