#include "exec/run/matmul_test.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "exec/run/schedule.h"

namespace tpplan {
namespace {

constexpr uint64_t kSaltX = 1, kSaltDy = 2;

// Converts negative dims of placements to nonnegative ones.
std::vector<Placement> from_front(std::vector<Placement> placements, int ndim) {
  for (Placement& p : placements) {
    if (is_shard(p) && p.dim < 0) p.dim += ndim;
  }
  return placements;
}

// True for the data axes, which shard the batch.
bool shards_batch(const MatmulTest& w, AxisId axis) {
  const std::vector<AxisId> data = data_axes_of(w.manifest);
  return std::ranges::find(data, axis) != data.end();
}

// Returns the layout of y after the matmul.
std::vector<Placement> y_given(const MatmulTest& w, std::vector<Placement> rows) {
  put(rows, w.weight_spec[w.matmul.weight.out], shard(2));
  put(rows, w.weight_spec[w.matmul.weight.in], {.kind = PlacementKind::Partial});
  return rows;
}

// Returns the placements that shard batch and tokens: the layout without its last dim.
std::vector<Placement> rows_of(std::vector<Placement> placements) {
  for (Placement& p : placements) {
    if (!is_shard(p) || p.dim >= 2) p = {};
  }
  return placements;
}

int64_t id_at(const MatmulTest& w, int64_t row) {
  return static_cast<int64_t>((static_cast<uint64_t>(row) * 2654435761u + 12345) % static_cast<uint64_t>(w.in));
}

void put_floats(const MatmulTest& w, LocalTensor& tensor, const std::vector<float>& values) {
  if (!values.empty()) w.comm.device->from_host(tensor.data.get(), values.data(), values.size() * sizeof(float));
  w.comm.device->synchronize();
}

}  // namespace

int factor(uint64_t salt, int64_t index) { return exact_value(salt, static_cast<uint64_t>(index), 0) % 2; }
int weight_value(int64_t out, int64_t in) {
  return factor(kFactorU, out) * factor(kFactorV, in) + factor(kFactorU + 1, out) * factor(kFactorV + 1, in);
}

const ManifestValue* first_value(const std::vector<ManifestValue>& values) {
  for (const ManifestValue& value : values) {
    if (value.from && value.to) return &value;
  }
  return nullptr;
}

void put(std::vector<Placement>& placements, const DimAxes& axes, const Placement& placement) {
  for (const AxisId axis : axes) placements[axis] = placement;
}

std::vector<Placement> required_x_layout(const MatmulTest& w, std::vector<Placement> rows) {
  put(rows, w.weight_spec[w.matmul.weight.in], shard(2));
  return rows;
}
std::vector<int64_t> indices_of(std::span<const Interval> runs) {
  std::vector<int64_t> indices;
  for (const Interval& run : runs) {
    for (int64_t i = run.begin; i < run.end; ++i) indices.push_back(i);
  }
  return indices;
}

bool set_matmul_layouts(MatmulTest& w, MatmulResult& result) {
  const ModuleWeight& weight = w.matmul.weight;
  const ParamLayout& layout = layout_of(w.manifest, *weight.param);
  w.in = layout.shape[weight.in];
  w.out = layout.shape[weight.out];
  w.weight_spec = layout.sharding.spec;
  // FSDP gathers the weight before the matmul and scatters its gradient after it.
  if (w.manifest.fsdp) w.weight_spec = without_axis(std::move(w.weight_spec), w.manifest.fsdp->axis);
  if (!layout.sharding.segments.empty() &&
      !is_even(layout.shape, {.spec = w.weight_spec, .segments = layout.sharding.segments}, w.mesh)) {
    result.fault = MatmulError::Packed;
    result.reason =
        "its segments are sharded unevenly, but the activation is sharded as one dim: the shards would not match";
    return false;
  }
  const size_t axis_count = w.mesh.axes.size();
  const ManifestValue* input = first_value(w.matmul.layout->inputs);
  const ManifestValue* output = first_value(w.matmul.layout->outputs);
  const int ndim = weight.is_embedding ? 2 : 3;
  w.x_from = input != nullptr ? from_front(*input->from, ndim) : std::vector<Placement>(axis_count);
  w.x_to = input != nullptr ? from_front(*input->to, ndim) : std::vector<Placement>(axis_count);
  if (input != nullptr && input->gradient)
    w.dx = {.from = from_front(input->gradient->from, ndim), .to = from_front(input->gradient->to, ndim)};
  std::vector<Placement> rows = rows_of(w.x_to);
  // Boundaries declare the layout on one data rank; the batch axes shard the sequences in addition.
  for (size_t i = 0; i < axis_count; ++i) {
    const auto axis = static_cast<AxisId>(i);
    const bool open =
        rows[i].kind == PlacementKind::Replicate && shards_batch(w, axis) && !uses_axis(w.weight_spec, axis);
    if (open) rows[i] = shard(0);
    if (open && w.x_from[i].kind == PlacementKind::Replicate) {
      w.x_from[i] = w.x_to[i] = shard(0);
      if (w.dx) w.dx->from[i] = w.dx->to[i] = shard(0);
    }
    if (is_shard(rows[i]) && rows[i].dim == 0) w.batch *= w.mesh.axes[i].size;
  }
  const std::vector<Placement> needed = weight.is_embedding ? rows : required_x_layout(w, rows),
                               given = y_given(w, rows);
  if (w.x_to != needed) {
    result.fault = MatmulError::InputLayout;
    result.reason = fmt::format("its weight requires an input of {}, but the boundary converts it to {}",
                                layout_text(needed), layout_text(w.x_to));
    return false;
  }
  w.y_from = given;
  w.y_to = given;
  if (output != nullptr) {
    w.y_from = from_front(*output->from, 3);
    w.y_to = from_front(*output->to, 3);
    if (output->gradient)
      w.dy = {.from = from_front(output->gradient->from, 3), .to = from_front(output->gradient->to, 3)};
    for (size_t i = 0; i < axis_count; ++i) {
      if (given[i] == shard(0) && w.y_from[i].kind == PlacementKind::Replicate &&
          w.y_to[i].kind == PlacementKind::Replicate) {
        w.y_from[i] = w.y_to[i] = shard(0);
        if (w.dy) w.dy->from[i] = w.dy->to[i] = shard(0);
      }
    }
  }
  if (w.y_from != given) {
    result.fault = MatmulError::OutputLayout;
    result.reason = fmt::format("its weight produces an output of {}, but the boundary declares {}", layout_text(given),
                                layout_text(w.y_from));
    return false;
  }
  const std::vector<std::vector<Interval>> slice =
      shard_slice(layout.shape, {.spec = w.weight_spec, .segments = layout.sharding.segments}, w.mesh, w.coordinate);
  for (const std::vector<Interval>& runs : slice) w.weight_indices.push_back(indices_of(runs));
  return true;
}

int x_value(const MatmulTest& w, int64_t row, int64_t in) {
  return w.matmul.weight.is_embedding ? in == id_at(w, row)
                                      : exact_value(kSaltX, static_cast<uint64_t>(row * w.in + in), 0);
}
int dy_value(const MatmulTest& w, int64_t row, int64_t out) {
  return exact_value(kSaltDy, static_cast<uint64_t>(row * w.out + out), 0);
}

LocalTensor make_tensor(const MatmulTest& w, std::string name, int64_t features, std::vector<Placement> placements) {
  return {.name = std::move(name),
          .shape = {w.batch, w.tokens, features},
          .dtype = w.float32,
          .placements = std::move(placements)};
}

std::vector<Interval> activation_intervals(const MatmulTest& w, const LocalTensor& tensor) {
  Region region;
  std::ignore = region_of(tensor, w.mesh, w.comm.rank, region);
  std::vector<Interval> box;
  for (const std::vector<Interval>& runs : region) box.push_back(runs.empty() ? Interval{} : runs[0]);
  return box;
}

std::vector<int64_t> rows_in(const MatmulTest& w, const std::vector<Interval>& intervals) {
  std::vector<int64_t> rows;
  for (int64_t b = intervals[0].begin; b < intervals[0].end; ++b) {
    for (int64_t t = intervals[1].begin; t < intervals[1].end; ++t) rows.push_back(b * w.tokens + t);
  }
  return rows;
}

// A fused weight is sharded segment by segment, and so is its output: the global features of such an activation are the
// indices of the weight, not one interval.
std::vector<int64_t> features_in(const MatmulTest& w, const LocalTensor& tensor, size_t dim) {
  const DimAxes& axes = w.weight_spec[dim];
  const bool as_weight =
      !axes.empty() && std::ranges::all_of(axes, [&](AxisId axis) { return tensor.placements[axis] == shard(2); });
  return as_weight ? w.weight_indices[dim] : indices_of(std::span(&activation_intervals(w, tensor)[2], 1));
}

std::vector<float> read_floats(const MatmulTest& w, const LocalTensor& tensor) {
  std::vector<float> values(tensor.bytes / sizeof(float));
  const std::vector<char> bytes = host_bytes(w.comm, tensor);
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

bool make_filled_tensor(MatmulTest& w, LocalTensor& tensor, MatmulValueFunction value, size_t dim) {
  if (!allocate_local(w.comm, w.mesh, tensor)) return false;
  const std::vector<AxisId> open = partial_axes(tensor.placements);
  // Along a Partial axis one rank has the value and the others zeros, so that the reduction returns the value.
  const bool holds = std::ranges::all_of(open, [&](AxisId axis) { return w.coordinate[axis] == 0; });
  const std::vector<Interval> intervals = activation_intervals(w, tensor);
  const std::vector<int64_t> features = features_in(w, tensor, dim);
  std::vector<float> values;
  for (const int64_t row : rows_in(w, intervals)) {
    for (const int64_t f : features) values.push_back(holds ? static_cast<float>(value(w, row, f)) : 0.0f);
  }
  put_floats(w, tensor, values);
  return true;
}

}  // namespace tpplan
