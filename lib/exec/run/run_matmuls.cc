#include "exec/run/run_matmuls.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "exec/ranks/deadline.h"
#include "exec/run/matmul_test.h"
#include "exec/run/memory_fit.h"
#include "exec/run/schedule.h"

namespace tpplan {
namespace {

// @pre `target` has nonnegative dims
bool redistribute_all(MatmulTest& w, LocalTensor& tensor, const std::vector<Step>& steps,
                      const std::vector<Placement>& target) {
  for (const Step& step : steps) {
    const Placement after = placement_after(step.collective, target);
    if (!redistribute_step(w.comm, w.mesh, step.collective, tensor, after)) return false;
  }
  return true;
}

// True if the tensor has the layout that the manifest declares; else stores the actual one in the result.
bool has_promised_layout(const LocalTensor& tensor, const std::vector<Placement>& promised, MatmulError fault,
                         std::string_view what, MatmulResult& result) {
  if (tensor.placements == promised) return true;
  result.fault = fault;
  result.reason = fmt::format("{} has the layout {}, but the manifest declares {}", what,
                              layout_text(tensor.placements), layout_text(promised));
  return false;
}

// True if an enclosing module reduces the tensor over each of its Partial axes: its boundary declares an output, or the
// gradient of an input, as Partial.
bool is_summed_above(const MatmulTest& w, const LocalTensor& tensor, bool gradient, MatmulResult& result) {
  for (const AxisId axis : partial_axes(tensor.placements)) {
    if (is_reduced_above(w.manifest, w.matmul.path, axis, gradient)) continue;
    result.fault = gradient ? MatmulError::GradientLayout : MatmulError::OutputLayout;
    result.reason = fmt::format("{} is partial over {}, and no enclosing module reduces it",
                                gradient ? "the gradient of its input" : "its output", axis_name(w.mesh, axis));
    return false;
  }
  return true;
}

// Reduces declared Partial axes, only for the comparison.
bool reduce_partial_sums(MatmulTest& w, LocalTensor& tensor) {
  for (const AxisId axis : partial_axes(tensor.placements)) {
    if (!redistribute_step(w.comm, w.mesh, {.kind = CollectiveKind::AllReduce, .axis = axis}, tensor)) return false;
  }
  return true;
}

struct DeviceFloats {
  std::shared_ptr<void> data;
  float* get() const { return static_cast<float*>(data.get()); }
};

bool allocate_floats(MatmulTest& w, int64_t elements, DeviceFloats& floats) {
  const Device& device = *w.comm.device;
  floats.data = {device.allocate(static_cast<uint64_t>(std::max<int64_t>(elements, 1)) * sizeof(float)),
                 device.release};
  if (floats.data == nullptr)
    fail(w.comm, Code::OutOfMemory,
         fmt::format("{}: cannot allocate {}", w.matmul.path,
                     human_bytes(static_cast<uint64_t>(elements) * sizeof(float))));
  return floats.data != nullptr;
}

void multiply(MatmulTest& w, float* y, const void* a, const void* b, const Matmul& matmul, MatmulResult& result) {
  const Clock::time_point begin = Clock::now();
  if (matmul.m != 0 && matmul.n != 0)
    w.comm.device->multiply(y, static_cast<const float*>(a), static_cast<const float*>(b), matmul);
  w.comm.device->synchronize();
  result.seconds += seconds_since(begin);
}

// Returns the number of elements that differ from the sum over k of value(row, k) W(k, f), where W has the factors `at`
// along f and `along` along k.
uint64_t count_wrong_matmul(const MatmulTest& w, const LocalTensor& tensor, size_t dim, MatmulValueFunction value,
                            int64_t length_k, uint64_t along, uint64_t at) {
  const std::vector<Interval> intervals = activation_intervals(w, tensor);
  const std::vector<int64_t> features = features_in(w, tensor, dim);
  const std::vector<float> found = read_floats(w, tensor);
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
      const int64_t v = value(w, row, k);
      sum1 += v * along1[static_cast<size_t>(k)];
      sum2 += v * along2[static_cast<size_t>(k)];
    }
    for (const int64_t f : features) {
      wrong += found[next++] != static_cast<float>(sum1 * factor(at, f) + sum2 * factor(at + 1, f));
    }
  }
  return wrong;
}

// Returns the local size of a dim of the weight.
int64_t count(const MatmulTest& w, size_t dim) { return static_cast<int64_t>(w.weight_indices[dim].size()); }

bool forward(MatmulTest& w, const DeviceFloats& weight, LocalTensor& x, MatmulResult& result) {
  const ModuleWeight& shape = w.matmul.weight;
  LocalTensor y = make_tensor(w, w.matmul.path + " output", w.out, w.y_from);
  if (!allocate_local(w.comm, w.mesh, y)) return false;
  const std::vector<Interval> y_box = activation_intervals(w, y);
  const int64_t rows = length(y_box[0]) * length(y_box[1]);
  multiply(w, static_cast<float*>(y.data.get()), x.data.get(), weight.get(),
           {.m = rows, .n = count(w, shape.out), .k = count(w, shape.in), .transpose_b = shape.out == 0}, result);
  const ManifestValue* output = first_value(w.matmul.layout->outputs);
  if (output != nullptr && !redistribute_all(w, y, output->forward, w.y_to)) return false;
  if (!has_promised_layout(y, w.y_to, MatmulError::OutputLayout, "its output", result)) return true;
  if (output == nullptr && !is_summed_above(w, y, false, result)) return true;
  if (!reduce_partial_sums(w, y)) return false;
  result.elements = y.bytes / sizeof(float);
  result.wrong = count_wrong_matmul(w, y, shape.out, x_value, w.in, kFactorV, kFactorU);
  return true;
}

// Makes dy in the layout that the matmul needs: sharded as y is, and Replicate on the axes over which y was Partial.
bool gradient_of_output(MatmulTest& w, LocalTensor& dy, MatmulResult& result) {
  const GradientLayouts needed = gradient_layouts(w.y_from, w.y_to, 0, GradientReduction::None);
  const std::vector<Placement>& target = needed.to;
  dy = make_tensor(w, w.matmul.path + " gradient of output", w.out, w.dy ? w.dy->from : needed.from);
  const ManifestValue* output = first_value(w.matmul.layout->outputs);
  if (!make_filled_tensor(w, dy, dy_value, w.matmul.weight.out)) return false;
  if (output != nullptr && !w.dy) {
    result.fault = MatmulError::GradientLayout;
    result.reason = "the boundary specifies no gradient of its output";
    return true;
  }
  if (output != nullptr && !redistribute_all(w, dy, output->backward, target)) return false;
  if (dy.placements == target) return true;
  result.fault = MatmulError::GradientLayout;
  result.reason = fmt::format("the gradient of its output is {}, but the matmul requires {}",
                              layout_text(dy.placements), layout_text(target));
  return true;
}

// dx = dy W' sums over the output features: dx is partial over an axis that shards them.
bool gradient_of_input(MatmulTest& w, const DeviceFloats& weight, const LocalTensor& dy, MatmulResult& result) {
  const ModuleWeight& shape = w.matmul.weight;
  std::vector<Placement> placements = w.x_to;
  put(placements, w.weight_spec[shape.out], {.kind = PlacementKind::Partial});
  LocalTensor dx = make_tensor(w, w.matmul.path + " gradient of input", w.in, placements);
  if (!allocate_local(w.comm, w.mesh, dx)) return false;
  const std::vector<Interval> dx_box = activation_intervals(w, dx);
  multiply(w, static_cast<float*>(dx.data.get()), dy.data.get(), weight.get(),
           {.m = length(dx_box[0]) * length(dx_box[1]),
            .n = count(w, shape.in),
            .k = count(w, shape.out),
            .transpose_b = shape.in == 0},
           result);
  const ManifestValue* input = first_value(w.matmul.layout->inputs);
  if (input != nullptr && (!w.dx || w.dx->from != dx.placements)) {
    result.fault = MatmulError::GradientLayout;
    result.reason = fmt::format("the gradient of its input is {}, but the boundary {}", layout_text(dx.placements),
                                w.dx ? "declares " + layout_text(w.dx->from) : "specifies none");
    return true;
  }
  if (input != nullptr && !redistribute_all(w, dx, input->backward, w.dx->to)) return false;
  if (input != nullptr &&
      !has_promised_layout(dx, w.dx->to, MatmulError::GradientLayout, "the gradient of its input", result))
    return true;
  if (!is_summed_above(w, dx, true, result)) return true;
  if (!reduce_partial_sums(w, dx)) return false;
  result.input_elements = dx.bytes / sizeof(float);
  result.input_wrong = count_wrong_matmul(w, dx, shape.in, dy_value, w.out, kFactorU, kFactorV);
  return true;
}

// Returns the number of local elements of dW that differ from the sum over all tokens of x dy.
uint64_t wrong_gradients(const MatmulTest& w, const LocalTensor& gradient,
                         const std::vector<std::vector<int64_t>>& piece) {
  const ModuleWeight& shape = w.matmul.weight;
  const std::vector<float> found = read_floats(w, gradient);
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

bool gradient_of_weight(MatmulTest& w, const LocalTensor& x, const LocalTensor& dy, MatmulResult& result) {
  const ModuleWeight& shape = w.matmul.weight;
  const ParamLayout& layout = layout_of(w.manifest, *shape.param);
  std::vector<Placement> placements = plain_placements(w.weight_spec, w.mesh);
  // The sum over the tokens is partial over every axis that shards them.
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (is_shard(dy.placements[axis]) && dy.placements[axis].dim < 2)
      placements[axis] = {.kind = PlacementKind::Partial};
  }
  LocalTensor gradient{.name = w.matmul.path + " gradient of weight",
                       .shape = layout.shape,
                       .segments = layout.sharding.segments,
                       .dtype = w.float32,
                       .placements = placements};
  if (!allocate_local(w.comm, w.mesh, gradient)) return false;
  const std::vector<Interval> dy_box = activation_intervals(w, dy);
  const bool out_first = shape.out == 0;
  multiply(w, static_cast<float*>(gradient.data.get()), out_first ? dy.data.get() : x.data.get(),
           out_first ? x.data.get() : dy.data.get(),
           {.m = count(w, 0), .n = count(w, 1), .k = length(dy_box[0]) * length(dy_box[1]), .transpose_a = true},
           result);
  // An axis that shards no tokens reduces nothing: every rank has the full sum, which stays replicated.
  Sharding reduced = layout.sharding;
  std::vector<GradReduce> open;
  for (const GradReduce& reduce : layout.grad_reduce) {
    if (placements[reduce.axis].kind == PlacementKind::Partial)
      open.push_back(reduce);
    else
      reduced.spec = without_axis(std::move(reduced.spec), reduce.axis);
  }
  for (const ParamStep& step : param_steps(layout.shape, reduced, open, {}, w.mesh)) {
    if (!redistribute_step(w.comm, w.mesh, step.step.collective, gradient, step.step.after)) return false;
  }
  // Over axes that shard the tokens but are in no grad_reduce the gradient stays partial: it is counted as wrong on
  // every rank.
  Region region;
  std::ignore = region_of(gradient, w.mesh, w.comm.rank, region);
  std::vector<std::vector<int64_t>> piece;
  for (const std::vector<Interval>& runs : region) piece.push_back(indices_of(runs));
  result.weight_elements = gradient.bytes / sizeof(float);
  result.weight_wrong = wrong_gradients(w, gradient, piece);
  return true;
}

// Fills the local weight of the matmul.
bool fill_weight(MatmulTest& w, DeviceFloats& weight) {
  if (!allocate_floats(w, count(w, 0) * count(w, 1), weight)) return false;
  const bool out_first = w.matmul.weight.out == 0;
  std::vector<float> values;
  values.reserve(w.weight_indices[0].size() * w.weight_indices[1].size());
  for (const int64_t r : w.weight_indices[0]) {
    for (const int64_t c : w.weight_indices[1])
      values.push_back(static_cast<float>(out_first ? weight_value(r, c) : weight_value(c, r)));
  }
  if (!values.empty()) w.comm.device->from_host(weight.data.get(), values.data(), values.size() * sizeof(float));
  w.comm.device->synchronize();
  return true;
}

// Makes x in the layout that the matmul needs. The x of an embedding is one-hot rows, made of ids that every rank has
// for its tokens; a rank needs the columns of its rows of the weight.
bool make_input(MatmulTest& w, LocalTensor& x) {
  x = make_tensor(w, w.matmul.path + " input", w.in, w.x_from);
  if (!w.matmul.weight.is_embedding) {
    const ManifestValue* input = first_value(w.matmul.layout->inputs);
    return make_filled_tensor(w, x, x_value, w.matmul.weight.in) &&
           (input == nullptr || redistribute_all(w, x, input->forward, w.x_to));
  }
  x.placements = required_x_layout(w, w.x_to);
  return make_filled_tensor(w, x, x_value, w.matmul.weight.in);
}

// Estimates the peak bytes of the matmul on this rank: the weight, its gradient, and their copies on the host.
uint64_t bytes_needed(const MatmulTest& w) {
  return static_cast<uint64_t>(w.weight_indices[0].size()) * w.weight_indices[1].size() * sizeof(float) * 4;
}

}  // namespace

bool run_module_matmul(Comm& comm, const Manifest& manifest, const ModuleMatmul& matmul, int64_t tokens,
                       MatmulResult& result) {
  MatmulTest w{.comm = comm,
               .manifest = manifest,
               .mesh = manifest.mesh,
               .matmul = matmul,
               .tokens = tokens,
               .coordinate = coordinate_of(manifest.mesh, comm.rank)};
  w.float32 = dtype_of("float32");
  begin_step(comm, "matmul of " + matmul.path);
  if (!set_matmul_layouts(w, result)) return true;
  if (!fits_on_all_ranks(comm, bytes_needed(w))) {
    result.fault = MatmulError::NoMemory;
    result.reason = fmt::format("a rank needs {}, more than the free memory", human_bytes(bytes_needed(w)));
    return true;
  }
  DeviceFloats weight;
  LocalTensor x, dy;
  if (!fill_weight(w, weight) || !make_input(w, x)) return false;
  if (!has_promised_layout(x, matmul.weight.is_embedding ? required_x_layout(w, w.x_to) : w.x_to,
                           MatmulError::InputLayout, "its input", result))
    return true;
  if (!forward(w, weight, x, result)) return false;
  if (result.fault != MatmulError::None) return true;
  if (!gradient_of_output(w, dy, result)) return false;
  if (result.fault != MatmulError::None) return true;
  if (!matmul.weight.is_embedding && !gradient_of_input(w, weight, dy, result)) return false;
  if (result.fault != MatmulError::None) return true;
  return gradient_of_weight(w, x, dy, result);
}

}  // namespace tpplan
