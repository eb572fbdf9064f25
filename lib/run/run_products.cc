#include "run/run_products.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unordered_map>

#include "base/text.h"
#include "manifest/path_pattern.h"
#include "run/exact_tensor.h"
#include "run/memory_vote.h"

namespace tpplan {
namespace {

constexpr uint64_t kSaltX = 1, kSaltDy = 2, kSaltU = 3, kSaltV = 5;

// The weight's elements are u1(out) v1(in) + u2(out) v2(in), from -2 to 2, so that a whole product takes sums over `in` or `out` alone.
int factor(uint64_t salt, int64_t index) { return exact_value(salt, static_cast<uint64_t>(index), 0) % 2; }
int weight_value(int64_t out, int64_t in) {
  return factor(kSaltU, out) * factor(kSaltV, in) + factor(kSaltU + 1, out) * factor(kSaltV + 1, in);
}

// What one rank works on: layouts have an entry for each mesh axis; dims are [batch, tokens, features].
struct Work {
  Comm& comm;
  const Manifest& manifest;
  const Mesh& mesh;
  const ModuleProduct& product;
  int64_t batch = 1, tokens = 1, in = 0, out = 0;
  DType float32 = 0;
  std::vector<int64_t> coordinate;
  PartitionSpec weight_spec;                  // without FSDP's axis
  std::vector<Placement> x_from, x_to;        // of x
  std::vector<Placement> y_from, y_to;        // of y
  std::vector<std::vector<int64_t>> weight_indices;  // by the weight's dims: global indices of the rank's part
};

Placement shard(int dim) { return {.kind = PlacementKind::Shard, .dim = dim}; }
bool is_shard(const Placement& p) { return p.kind == PlacementKind::Shard || p.kind == PlacementKind::StridedShard; }

const ManifestValue* first_value(const std::vector<ManifestValue>& values) {
  for (const ManifestValue& value : values) {
    if (value.from && value.to) return &value;
  }
  return nullptr;
}

// Layouts of a value, its dims counted from the front of `ndim`.
std::vector<Placement> from_front(std::vector<Placement> placements, int ndim) {
  for (Placement& p : placements) {
    if (is_shard(p) && p.dim < 0) p.dim += ndim;
  }
  return placements;
}

// The axes over which the weight's gradient is summed though no style cuts the tokens there: the batch is cut over them.
bool cuts_batch(const Work& w, AxisId axis) {
  const bool fsdp = w.manifest.fsdp && w.manifest.fsdp->axis == axis;
  return fsdp || (w.manifest.data && std::ranges::find(w.manifest.data->axes, axis) != w.manifest.data->axes.end());
}

// How the axes that cut a dim of the weight look to a value with that dim last: `kind` on each.
void put(std::vector<Placement>& placements, const DimAxes& axes, const Placement& placement) {
  for (const AxisId axis : axes) placements[axis] = placement;
}

// The layout that the product itself needs for x, and gives to y, its tokens as in `rows`.
std::vector<Placement> x_needed(const Work& w, std::vector<Placement> rows) {
  put(rows, w.weight_spec[w.product.weight.in], shard(2));
  return rows;
}
std::vector<Placement> y_given(const Work& w, std::vector<Placement> rows) {
  put(rows, w.weight_spec[w.product.weight.out], shard(2));
  put(rows, w.weight_spec[w.product.weight.in], {.kind = PlacementKind::Partial});
  return rows;
}
// Which axes cut the tokens, and how: the layout without its last dim.
std::vector<Placement> rows_of(std::vector<Placement> placements) {
  for (Placement& p : placements) {
    if (!is_shard(p) || p.dim >= 2) p = {};
  }
  return placements;
}

std::string layout_text(const std::vector<Placement>& placements) {
  std::vector<std::string> parts;
  for (const Placement& p : placements) parts.push_back(to_text(p));
  return "[" + join(parts, ", ") + "]";
}

bool uses_fsdp(const Work& w, const ParamLayout& layout) { return w.manifest.fsdp && uses_axis(layout.sharding.spec, w.manifest.fsdp->axis); }

std::vector<int64_t> indices_of(std::span<const Interval> runs) {
  std::vector<int64_t> indices;
  for (const Interval& run : runs) {
    for (int64_t i = run.begin; i < run.end; ++i) indices.push_back(i);
  }
  return indices;
}

// Lays everything out; false, with the reason in `result`, when the boundary does not fit the weight.
bool lay_out(Work& w, ProductResult& result) {
  const ModuleWeight& weight = w.product.weight;
  const ParamLayout& layout = layout_of(w.manifest, *weight.param);
  if (!layout.sharding.segments.empty() && (uses_fsdp(w, layout) || !is_even(layout.shape, layout.sharding, w.mesh))) {
    result.fault = ProductFault::Packed;
    result.reason = "its segments are cut by FSDP too, or unevenly";
    return false;
  }
  w.in = layout.shape[weight.in];
  w.out = layout.shape[weight.out];
  w.weight_spec = layout.sharding.spec;
  if (w.manifest.fsdp) {
    for (DimAxes& axes : w.weight_spec) std::erase(axes, w.manifest.fsdp->axis);
  }
  const size_t axis_count = w.mesh.axes.size();
  const ManifestValue* input = first_value(w.product.layout->inputs);
  const ManifestValue* output = first_value(w.product.layout->outputs);
  const int ndim = weight.is_embedding ? 2 : 3;
  w.x_from = input != nullptr ? from_front(*input->from, ndim) : std::vector<Placement>(axis_count);
  w.x_to = input != nullptr ? from_front(*input->to, ndim) : std::vector<Placement>(axis_count);
  std::vector<Placement> rows = rows_of(w.x_to);
  for (size_t i = 0; i < axis_count; ++i) {
    const auto axis = static_cast<AxisId>(i);
    const bool open = rows[i].kind == PlacementKind::Replicate && cuts_batch(w, axis) && !uses_axis(w.weight_spec, axis);
    if (open) rows[i] = shard(0);
    if (open && w.x_from[i].kind == PlacementKind::Replicate) w.x_from[i] = w.x_to[i] = shard(0);
    if (is_shard(rows[i]) && rows[i].dim == 0) w.batch *= w.mesh.axes[i].size;
  }
  const std::vector<Placement> needed = weight.is_embedding ? rows : x_needed(w, rows), given = y_given(w, rows);
  if (w.x_to != needed) {
    result.fault = ProductFault::InputLayout;
    result.reason = fmt::format("its weight needs an input of {}, the boundary makes it {}", layout_text(needed), layout_text(w.x_to));
    return false;
  }
  w.y_from = given;
  w.y_to = given;
  if (output != nullptr) {
    w.y_from = from_front(*output->from, 3);
    w.y_to = from_front(*output->to, 3);
    for (size_t i = 0; i < axis_count; ++i) {
      if (given[i] == shard(0) && w.y_from[i].kind == PlacementKind::Replicate && w.y_to[i].kind == PlacementKind::Replicate) w.y_from[i] = w.y_to[i] = shard(0);
    }
  }
  if (w.y_from != given) {
    result.fault = ProductFault::OutputLayout;
    result.reason = fmt::format("its weight leaves an output of {}, the boundary takes it for {}", layout_text(given), layout_text(w.y_from));
    return false;
  }
  const std::vector<std::vector<Interval>> slice = shard_slice(layout.shape, {.spec = w.weight_spec, .segments = layout.sharding.segments}, w.mesh, w.coordinate);
  for (const std::vector<Interval>& runs : slice) w.weight_indices.push_back(indices_of(runs));
  return true;
}

int64_t id_at(const Work& w, int64_t row) { return static_cast<int64_t>((static_cast<uint64_t>(row) * 2654435761u + 12345) % static_cast<uint64_t>(w.in)); }

// Global values. `row` counts the tokens of the whole batch.
int x_value(const Work& w, int64_t row, int64_t in) {
  return w.product.weight.is_embedding ? in == id_at(w, row) : exact_value(kSaltX, static_cast<uint64_t>(row * w.in + in), 0);
}
int dy_value(const Work& w, int64_t row, int64_t out) { return exact_value(kSaltDy, static_cast<uint64_t>(row * w.out + out), 0); }

using Value = int (*)(const Work& w, int64_t row, int64_t feature);

LocalTensor make_tensor(const Work& w, std::string name, int64_t features, std::vector<Placement> placements) {
  return {.name = std::move(name), .shape = {w.batch, w.tokens, features}, .dtype = w.float32, .placements = std::move(placements)};
}

// The rank's box of an activation: batch, tokens, features.
std::vector<Interval> box(const Work& w, const LocalTensor& tensor) {
  std::vector<Interval> intervals;
  box_of(tensor.shape, tensor.placements, w.mesh, w.comm.rank, intervals);
  return intervals;
}

// The rank's tokens, as rows of the whole batch.
std::vector<int64_t> rows_in(const Work& w, const std::vector<Interval>& intervals) {
  std::vector<int64_t> rows;
  for (int64_t b = intervals[0].begin; b < intervals[0].end; ++b) {
    for (int64_t t = intervals[1].begin; t < intervals[1].end; ++t) rows.push_back(b * w.tokens + t);
  }
  return rows;
}

// The global features of an activation whose last dim is the weight's dim `dim`: where it is cut as the weight is, the weight's
// indices (those of a packed weight are several runs), else its box.
std::vector<int64_t> features_in(const Work& w, const LocalTensor& tensor, size_t dim) {
  const DimAxes& axes = w.weight_spec[dim];
  const bool as_weight = !axes.empty() && std::ranges::all_of(axes, [&](AxisId axis) { return tensor.placements[axis] == shard(2); });
  return as_weight ? w.weight_indices[dim] : indices_of(std::span(&box(w, tensor)[2], 1));
}

std::vector<float> floats_of(const Work& w, const LocalTensor& tensor) {
  std::vector<float> values(tensor.bytes / sizeof(float));
  const std::vector<char> bytes = host_bytes(w.comm, tensor);
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void put_floats(const Work& w, LocalTensor& tensor, const std::vector<float>& values) {
  if (!values.empty()) w.comm.device->from_host(tensor.data.get(), values.data(), values.size() * sizeof(float));
  w.comm.device->synchronize();
}

// Where the layout is Partial, the first rank of the axis holds the values and the others hold zeros.
bool make_filled(Work& w, LocalTensor& tensor, Value value, size_t dim) {
  if (!allocate_local(w.comm, w.mesh, tensor)) return false;
  const std::vector<AxisId> open = open_axes(tensor.placements);
  const bool holds = std::ranges::all_of(open, [&](AxisId axis) { return w.coordinate[axis] == 0; });
  const std::vector<Interval> intervals = box(w, tensor);
  const std::vector<int64_t> features = features_in(w, tensor, dim);
  std::vector<float> values;
  for (const int64_t row : rows_in(w, intervals)) {
    for (const int64_t f : features) values.push_back(holds ? static_cast<float>(value(w, row, f)) : 0.0f);
  }
  put_floats(w, tensor, values);
  return true;
}

bool redistribute_all(Work& w, LocalTensor& tensor, const std::vector<Collective>& steps, const std::vector<Placement>& target) {
  for (const Collective& step : steps) {
    if (!redistribute_step(w.comm, w.mesh, step, tensor, after_step(step, target))) return false;
  }
  return true;
}

// What is still open is summed, for the comparison only.
bool close_sums(Work& w, LocalTensor& tensor) {
  for (const AxisId axis : open_axes(tensor.placements)) {
    if (!redistribute_step(w.comm, w.mesh, {.kind = CollectiveKind::AllReduce, .axis = axis}, tensor)) return false;
  }
  return true;
}

struct DeviceFloats {
  std::shared_ptr<void> data;
  float* get() const { return static_cast<float*>(data.get()); }
};

bool allocate_floats(Work& w, int64_t elements, DeviceFloats& floats) {
  const Device& device = *w.comm.device;
  floats.data = {device.allocate(static_cast<uint64_t>(std::max<int64_t>(elements, 1)) * sizeof(float)), device.release};
  if (floats.data == nullptr) fail(w.comm, fmt::format("{}: no memory for {}", w.product.path, human_bytes(static_cast<uint64_t>(elements) * sizeof(float))));
  return floats.data != nullptr;
}

void multiply(Work& w, float* y, const void* a, const void* b, const Product& product, ProductResult& result) {
  const auto begin = std::chrono::steady_clock::now();
  if (product.m != 0 && product.n != 0) w.comm.device->multiply(y, static_cast<const float*>(a), static_cast<const float*>(b), product);
  w.comm.device->synchronize();
  result.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Elements of the result that differ from sum over k of value(row, k) W(k, f), W's factors at `f` being `at` and along k `along`.
uint64_t wrong_products(const Work& w, const LocalTensor& tensor, size_t dim, Value value, int64_t length_k, uint64_t along, uint64_t at) {
  const std::vector<Interval> intervals = box(w, tensor);
  const std::vector<int64_t> features = features_in(w, tensor, dim);
  const std::vector<float> found = floats_of(w, tensor);
  uint64_t wrong = 0;
  size_t next = 0;
  std::vector<int> along1(static_cast<size_t>(length_k)), along2(along1.size());
  for (int64_t k = 0; k < length_k; ++k) {
    along1[static_cast<size_t>(k)] = factor(along, k);
    along2[static_cast<size_t>(k)] = factor(along + 1, k);
  }
  for (const int64_t row : rows_in(w, intervals)) {
    int64_t sum1 = 0, sum2 = 0;
    for (int64_t k = 0; k < length_k; ++k) {
      const int v = value(w, row, k);
      sum1 += v * along1[static_cast<size_t>(k)];
      sum2 += v * along2[static_cast<size_t>(k)];
    }
    for (const int64_t f : features) {
      wrong += found[next++] != static_cast<float>(sum1 * factor(at, f) + sum2 * factor(at + 1, f));
    }
  }
  return wrong;
}

// Indices of a dim of the weight that the rank has.
int64_t count(const Work& w, size_t dim) { return static_cast<int64_t>(w.weight_indices[dim].size()); }

bool forward(Work& w, const DeviceFloats& weight, LocalTensor& x, ProductResult& result) {
  const ModuleWeight& shape = w.product.weight;
  LocalTensor y = make_tensor(w, w.product.path + " output", w.out, w.y_from);
  if (!allocate_local(w.comm, w.mesh, y)) return false;
  const std::vector<Interval> y_box = box(w, y);
  const int64_t rows = length(y_box[0]) * length(y_box[1]);
  multiply(w, static_cast<float*>(y.data.get()), x.data.get(), weight.get(),
           {.m = rows, .n = count(w, shape.out), .k = count(w, shape.in), .transpose_b = shape.out == 0}, result);
  const ManifestValue* output = first_value(w.product.layout->outputs);
  if (output != nullptr && !redistribute_all(w, y, output->forward, w.y_to)) return false;
  if (!close_sums(w, y)) return false;
  result.elements = y.bytes / sizeof(float);
  result.wrong = wrong_products(w, y, shape.out, x_value, w.in, kSaltV, kSaltU);
  return true;
}

// dy where the product takes it: cut as y is, and the same on every rank over which y's sums were open.
bool gradient_of_output(Work& w, LocalTensor& dy, ProductResult& result) {
  std::vector<Placement> arriving = w.y_to, target = w.y_from;
  for (Placement& p : arriving) p = p.kind == PlacementKind::Partial ? Placement{} : p;
  for (Placement& p : target) p = p.kind == PlacementKind::Partial ? Placement{} : p;
  dy = make_tensor(w, w.product.path + " gradient of output", w.out, arriving);
  const ManifestValue* output = first_value(w.product.layout->outputs);
  if (!make_filled(w, dy, dy_value, w.product.weight.out)) return false;
  if (output != nullptr && !redistribute_all(w, dy, output->backward, target)) return false;
  if (dy.placements == target) return true;
  result.fault = ProductFault::GradientLayout;
  result.reason = fmt::format("the gradient of its output arrives as {}, the product needs {}", layout_text(dy.placements), layout_text(target));
  return true;
}

bool gradient_of_input(Work& w, const DeviceFloats& weight, const LocalTensor& dy, ProductResult& result) {
  const ModuleWeight& shape = w.product.weight;
  std::vector<Placement> placements = w.x_to;
  put(placements, w.weight_spec[shape.out], {.kind = PlacementKind::Partial});
  LocalTensor dx = make_tensor(w, w.product.path + " gradient of input", w.in, placements);
  if (!allocate_local(w.comm, w.mesh, dx)) return false;
  const std::vector<Interval> dx_box = box(w, dx);
  multiply(w, static_cast<float*>(dx.data.get()), dy.data.get(), weight.get(),
           {.m = length(dx_box[0]) * length(dx_box[1]), .n = count(w, shape.in), .k = count(w, shape.out), .transpose_b = shape.in == 0}, result);
  const ManifestValue* input = first_value(w.product.layout->inputs);
  if (input != nullptr && !redistribute_all(w, dx, input->backward, w.x_from)) return false;
  if (!close_sums(w, dx)) return false;
  result.input_elements = dx.bytes / sizeof(float);
  result.input_wrong = wrong_products(w, dx, shape.in, dy_value, w.out, kSaltU, kSaltV);
  return true;
}

// Elements of the rank's piece of dW that differ from the sum over all tokens of x dy.
uint64_t wrong_gradients(const Work& w, const LocalTensor& gradient, const std::vector<std::vector<int64_t>>& piece) {
  const ModuleWeight& shape = w.product.weight;
  const std::vector<float> found = floats_of(w, gradient);
  const std::vector<int64_t>&out = piece[shape.out], &in = piece[shape.in];
  std::vector<float> expected(found.size(), 0.0f), left(piece[0].size()), right(piece[1].size());
  for (int64_t row = 0; row < w.batch * w.tokens; ++row) {
    std::vector<float>& outs = shape.out == 0 ? left : right;
    std::vector<float>& ins = shape.out == 0 ? right : left;
    for (size_t o = 0; o < out.size(); ++o) outs[o] = static_cast<float>(dy_value(w, row, out[o]));
    for (size_t i = 0; i < in.size(); ++i) ins[i] = static_cast<float>(x_value(w, row, in[i]));
    for (size_t a = 0; a < left.size(); ++a) {
      if (left[a] == 0.0f) continue;
      float* to = expected.data() + a * right.size();
      for (size_t b = 0; b < right.size(); ++b) to[b] += left[a] * right[b];
    }
  }
  uint64_t wrong = 0;
  for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != expected[i];
  return wrong;
}

bool gradient_of_weight(Work& w, const LocalTensor& x, const LocalTensor& dy, ProductResult& result) {
  const ModuleWeight& shape = w.product.weight;
  const ParamLayout& layout = layout_of(w.manifest, *shape.param);
  // A packed weight's gradient has the shape of a plain one.
  const std::vector<Placement> cut = *placements_of({.spec = layout.sharding.spec, .segments = {}}, w.mesh);
  std::vector<Placement> placements = cut;
  // Sums over the tokens are open on every axis that cuts them.
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (w.manifest.fsdp && w.manifest.fsdp->axis == axis) placements[axis] = {};
    if (is_shard(dy.placements[axis]) && dy.placements[axis].dim < 2) placements[axis] = {.kind = PlacementKind::Partial};
  }
  LocalTensor gradient{.name = w.product.path + " gradient of weight", .shape = layout.shape, .dtype = w.float32, .placements = placements};
  if (!allocate_local(w.comm, w.mesh, gradient)) return false;
  const std::vector<Interval> dy_box = box(w, dy);
  const bool out_first = shape.out == 0;
  multiply(w, static_cast<float*>(gradient.data.get()), out_first ? dy.data.get() : x.data.get(), out_first ? x.data.get() : dy.data.get(),
           {.m = count(w, 0), .n = count(w, 1), .k = length(dy_box[0]) * length(dy_box[1]), .transpose_a = true}, result);
  for (const GradReduce& reduce : layout.grad_reduce) {
    const bool scatter = reduce.kind == GradReduceKind::ReduceScatter;
    if (placements[reduce.axis].kind != PlacementKind::Partial) continue;  // the axis cuts no tokens here: every rank has the whole sum
    const Collective step{.kind = scatter ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce, .axis = reduce.axis,
                          .dim = scatter ? cut[reduce.axis].dim : 0};
    if (!redistribute_step(w.comm, w.mesh, step, gradient, after_step(step, cut))) return false;
  }
  // Axes that cut the tokens and are in no grad_reduce stay open: such a gradient is wrong on every rank, and is counted so.
  std::vector<std::vector<int64_t>> piece = w.weight_indices;
  if (layout.sharding.segments.empty()) {
    std::vector<Interval> intervals;
    box_of(gradient.shape, gradient.placements, w.mesh, w.comm.rank, intervals);
    for (size_t dim = 0; dim < piece.size(); ++dim) piece[dim] = indices_of(std::span(&intervals[dim], 1));
  }
  result.weight_elements = gradient.bytes / sizeof(float);
  result.weight_wrong = wrong_gradients(w, gradient, piece);
  return true;
}

// The rank's part of the weight as the product uses it.
bool fill_weight(Work& w, DeviceFloats& weight) {
  if (!allocate_floats(w, count(w, 0) * count(w, 1), weight)) return false;
  const bool out_first = w.product.weight.out == 0;
  std::vector<float> values;
  values.reserve(w.weight_indices[0].size() * w.weight_indices[1].size());
  for (const int64_t r : w.weight_indices[0]) {
    for (const int64_t c : w.weight_indices[1]) values.push_back(static_cast<float>(out_first ? weight_value(r, c) : weight_value(c, r)));
  }
  if (!values.empty()) w.comm.device->from_host(weight.data.get(), values.data(), values.size() * sizeof(float));
  w.comm.device->synchronize();
  return true;
}

// x where the product takes it. An embedding's x is made of ids that every rank has for its tokens: one-hot rows, of which a
// rank needs the columns that its rows of the weight stand for.
bool make_input(Work& w, LocalTensor& x) {
  x = make_tensor(w, w.product.path + " input", w.in, w.x_from);
  if (!w.product.weight.is_embedding) {
    const ManifestValue* input = first_value(w.product.layout->inputs);
    return make_filled(w, x, x_value, w.product.weight.in) && (input == nullptr || redistribute_all(w, x, input->forward, w.x_to));
  }
  x.placements = x_needed(w, w.x_to);
  return make_filled(w, x, x_value, w.product.weight.in);
}

// Bytes that the rank's part of the product takes at its peak, about: the weight, its gradient, and their copies on the host.
uint64_t bytes_needed(const Work& w) {
  return static_cast<uint64_t>(w.weight_indices[0].size()) * w.weight_indices[1].size() * sizeof(float) * 4;
}

}  // namespace

namespace {

// All that a product depends on.
std::string key_of(const Manifest& manifest, const std::string& pattern, const ModuleWeight& weight, const ModuleLayout& module) {
  const ParamLayout& layout = layout_of(manifest, *weight.param);
  std::string key = fmt::format("{} {} {} {} {}", pattern, weight.is_embedding, weight.out, fmt::join(layout.shape, ","), to_text(layout.sharding.spec, manifest.mesh));
  for (const DimSegments& segments : layout.sharding.segments) key += fmt::format(" s{}:{}", segments.dim, fmt::join(segments.sizes, ","));
  for (const GradReduce& reduce : layout.grad_reduce) key += fmt::format(" g{}.{}", reduce.axis, static_cast<int>(reduce.kind));
  for (const auto* values : {&module.inputs, &module.outputs}) {
    key += " |";
    for (const ManifestValue& value : *values) {
      for (const auto* placements : {&value.from, &value.to}) key += *placements ? layout_text(**placements) : "null";
      for (const auto* steps : {&value.forward, &value.backward}) {
        key += " :";
        for (const Collective& c : *steps) key += fmt::format(" {}.{}.{}.{}", static_cast<int>(c.kind), c.axis, c.dim, c.from_dim);
      }
    }
  }
  return key;
}

}  // namespace

std::vector<ModuleProduct> list_products(const Manifest& manifest) {
  const auto weights = module_weights(manifest);
  std::vector<ModuleProduct> products;
  std::unordered_map<std::string, size_t> known;
  for (const ManifestModule& module : manifest.modules) {
    const std::string_view path = path_of(manifest, module);
    const auto weight = weights.find(path);
    if (weight == weights.end()) continue;
    const std::string pattern = path_pattern(path);
    const auto [place, is_new] = known.try_emplace(key_of(manifest, pattern, weight->second, layout_of(manifest, module)), products.size());
    if (is_new) products.push_back({.path = std::string(path), .pattern = pattern, .weight = weight->second, .layout = &layout_of(manifest, module)});
    ++products[place->second].count;
  }
  return products;
}

bool run_product(Comm& comm, const Manifest& manifest, const ModuleProduct& product, int64_t tokens, ProductResult& result) {
  Work w{.comm = comm, .manifest = manifest, .mesh = manifest.mesh, .product = product, .tokens = tokens, .coordinate = coordinate_of(manifest.mesh, comm.rank)};
  find_dtype("float32", w.float32);
  begin_step(comm, "product of " + product.path);
  if (!lay_out(w, result)) return true;
  bool enough = false;
  if (!vote_on_memory(comm, bytes_needed(w), enough)) return false;
  if (!enough) {
    result.fault = ProductFault::NoMemory;
    result.reason = fmt::format("a rank's part of it takes {}, more than is free", human_bytes(bytes_needed(w)));
    return true;
  }
  DeviceFloats weight;
  LocalTensor x, dy;
  if (!fill_weight(w, weight) || !make_input(w, x) || !forward(w, weight, x, result) || !gradient_of_output(w, dy, result)) return false;
  if (result.fault != ProductFault::None) return true;
  if (!product.weight.is_embedding && !gradient_of_input(w, weight, dy, result)) return false;
  return gradient_of_weight(w, x, dy, result);
}

}  // namespace tpplan
