#include "exec/run/schedule.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/keyed_hash.h"
#include "base/path_patterns.h"
#include "base/starred_path.h"
#include "exec/run/exact_tensor.h"
#include "exec/run/module_weights.h"

namespace tpplan {
namespace {

constexpr int64_t kUnknownFeatures = 64;

struct ScheduleBuilder {
  const Manifest& manifest;
  const ScheduleOptions& options;
  TextMap<std::string_view, ModuleWeight> weights;
  TextMap<std::string_view, std::pair<int64_t, int64_t>>
      inner;  // of a container: `in` of the first linear inside it, `out` of the last
  TextMap<std::string_view, const ModuleLayout*> inputs;  // of a module whose input has a layout
  DType float32 = 0, int64 = 0;
  std::vector<ScheduleEntry> schedule;
  std::vector<std::vector<std::string_view>> paths;  // of each entry of the schedule
  TextMap<std::string, size_t> known;                // key_of(entry) -> index in the schedule
};

std::string key_of(const ScheduleEntry& entry) {
  std::string key = fmt::format("{} {} {} {}", static_cast<int>(entry.part), starred_path(entry.path),
                                fmt::join(entry.shape, ","), entry.dtype);
  for (const DimSegments& segments : entry.segments)
    key += fmt::format(" s{}:{}", segments.dim, fmt::join(segments.sizes, ","));
  for (const auto* layout : {&entry.from, &entry.to}) key += ' ' + to_text(*layout);
  for (const Step& step : entry.steps) {
    const Collective& c = step.collective;
    key += fmt::format(" {}.{}.{}.{}", static_cast<int>(c.kind), c.axis, c.dim, c.from_dim);
  }
  return key;
}

void add(ScheduleBuilder& b, std::string_view path, ScheduleEntry entry) {
  if (entry.from == entry.to && entry.steps.empty()) return;
  const auto [place, is_new] = b.known.try_emplace(key_of(entry), b.schedule.size());
  if (is_new) {
    b.schedule.push_back(std::move(entry));
    b.paths.emplace_back();
  }
  ++b.schedule[place->second].count;
  b.paths[place->second].push_back(path);
}

void find_inner_features(ScheduleBuilder& b) {
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

// Returns the number of features of a value at a module boundary.
int64_t features_of(const ScheduleBuilder& b, std::string_view module, SchedulePart part) {
  const auto own = b.weights.find(module);
  if (own != b.weights.end()) {
    const ModuleWeight& weight = own->second;
    return layout_of(b.manifest, *weight.param).shape[part == SchedulePart::Input ? weight.in : weight.out];
  }
  const auto inner = b.inner.find(module);
  if (inner == b.inner.end()) return kUnknownFeatures;
  return part == SchedulePart::Input ? inner->second.first : inner->second.second;
}

// Returns the shape of a value with these placements: one sequence for each shard of the batch.
std::vector<int64_t> value_shape(const ScheduleBuilder& b, std::span<const Placement> from,
                                 std::span<const Placement> to, size_t ndim, int64_t features) {
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
    const bool shards_batch = std::ranges::any_of(
        std::initializer_list<Placement>{from[axis], to[axis]},
        [&](const Placement& p) { return is_shard(p) && (p.dim == 0 || p.dim + static_cast<int>(ndim) == 0); });
    if (shards_batch) batch *= b.manifest.mesh.axes[axis].size;
  }
  std::vector<int64_t> shape(ndim, 2);
  shape[0] = batch;
  if (ndim > 1) shape[1] = b.options.tokens;
  if (ndim > 2) shape[ndim - 1] = features;
  return shape;
}

void add_value(ScheduleBuilder& b, std::string_view module, const ManifestValue& value, SchedulePart part) {
  if (!value.from || !value.to) return;
  const auto own = b.weights.find(module);
  const bool ids = part == SchedulePart::Input && own != b.weights.end() && own->second.is_embedding;
  ScheduleEntry entry{.part = part,
                      .path = std::string(module),
                      .dtype = ids ? b.int64 : value.forward_dtype.value_or(b.float32),
                      .from = *value.from,
                      .to = *value.to,
                      .steps = value.forward};
  entry.shape = value_shape(b, *value.from, *value.to, ids ? 2 : 3, features_of(b, module, part));
  add(b, module, entry);
  if (!value.gradient) return;
  entry.part = SchedulePart::Gradient;
  entry.dtype = ids ? b.int64 : value.backward_dtype.value_or(b.float32);
  entry.from = value.gradient->from;
  entry.to = value.gradient->to;
  entry.steps = value.backward;
  add(b, module, std::move(entry));
}

void add_modules(ScheduleBuilder& b) {
  for (const ManifestModule& module : b.manifest.modules) {
    const ModuleLayout& layout = layout_of(b.manifest, module);
    if (!layout.inputs.empty() && layout.inputs[0].to) b.inputs.emplace(path_of(b.manifest, module), &layout);
    for (const ManifestValue& value : layout.inputs)
      add_value(b, path_of(b.manifest, module), value, SchedulePart::Input);
    for (const ManifestValue& value : layout.outputs)
      add_value(b, path_of(b.manifest, module), value, SchedulePart::Output);
  }
}

// Returns the spec of a parameter that is gathered for its module: without the batch axes.
PartitionSpec gathered(const Manifest& manifest, PartitionSpec spec) {
  for (const AxisId axis : data_axes_of(manifest)) spec = without_axis(std::move(spec), axis);
  return spec;
}

// Returns the axes over which the gradient of the parameter is partial, because ranks have different tokens: the batch
// axes, and those over which its rule shards the module's input along batch or sequence.
std::vector<AxisId> partial_axes_of(const ScheduleBuilder& b, const ManifestParam& param) {
  std::vector<AxisId> axes = data_axes_of(b.manifest);
  const ParamLayout& layout = layout_of(b.manifest, param);
  const std::string_view path = path_of(b.manifest, param);
  const auto inputs = b.inputs.find(path.substr(0, std::min(path.find_last_of("./"), path.size())));
  if (inputs == b.inputs.end() || inputs->second->rule != layout.rule) return axes;
  const std::vector<Placement>& input = *inputs->second->inputs[0].to;
  for (size_t i = 0; i < input.size(); ++i) {
    const Placement& placement = input[i];
    const auto axis = static_cast<AxisId>(i);
    const bool shards_tokens = is_shard(placement) && placement.dim >= 0 && placement.dim < 2;
    if (shards_tokens && !uses_axis(layout.sharding.spec, axis)) axes.push_back(axis);
  }
  return axes;
}

void add_param(ScheduleBuilder& b, const ManifestParam& param) {
  const ParamLayout& layout = layout_of(b.manifest, param);
  const Mesh& mesh = b.manifest.mesh;
  const PartitionSpec& spec = layout.sharding.spec;
  ScheduleEntry gather{.part = SchedulePart::Gather,
                       .path = std::string(path_of(b.manifest, param)),
                       .shape = layout.shape,
                       .segments = layout.sharding.segments,
                       .dtype = layout.dtype,
                       .from = plain_placements(spec, mesh),
                       .to = plain_placements(gathered(b.manifest, spec), mesh)};
  ScheduleEntry reduce = gather;
  reduce.part = SchedulePart::Reduce;
  reduce.from = unreduced_gradient(spec, layout.grad_reduce, mesh);
  for (const AxisId axis : partial_axes_of(b, param)) reduce.from[axis] = {.kind = PlacementKind::Partial};
  reduce.to = plain_placements(spec, mesh);
  for (const ParamStep& step : layout.steps)
    (step.part == StepPart::Gather ? gather : reduce).steps.push_back(step.step);
  const std::string_view path = path_of(b.manifest, param);
  add(b, path, std::move(gather));
  add(b, path, std::move(reduce));
}

}  // namespace

std::string_view to_text(SchedulePart part) {
  constexpr std::string_view names[] = {"input", "output", "gradient", "gather", "reduce"};
  static_assert(std::size(names) == static_cast<size_t>(SchedulePart::Reduce) + 1);
  return names[static_cast<size_t>(part)];
}

std::vector<ScheduleEntry> build_schedule(const Manifest& manifest, const ScheduleOptions& options) {
  ScheduleBuilder b{.manifest = manifest, .options = options, .weights = module_weights(manifest)};
  b.float32 = dtype_of("float32");
  b.int64 = dtype_of("int64");
  find_inner_features(b);
  add_modules(b);
  for (const ManifestParam& param : manifest.parameters) add_param(b, param);
  for (size_t i = 0; i < b.schedule.size(); ++i) b.schedule[i].pattern = ranged_path(b.paths[i]);
  return std::move(b.schedule);
}

}  // namespace tpplan
