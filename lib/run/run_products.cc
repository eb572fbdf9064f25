#include "run/run_products.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "ranks/deadline.h"
#include "run/memory_vote.h"
#include "run/product_work.h"
#include "run/schedule.h"

namespace tpplan {
namespace {

// `target` names dims as the product does, from the front.
bool redistribute_all(ProductWork& w, LocalTensor& tensor, const std::vector<Step>& steps,
                      const std::vector<Placement>& target) {
  for (const Step& step : steps) {
    const Placement after = placement_after(step.collective, target);
    if (!redistribute_step(w.comm, w.mesh, step.collective, tensor, after)) return false;
  }
  return true;
}

// True when the tensor has reached the layout that the manifest promises; else the result says what it has.
bool keeps_promise(const LocalTensor& tensor, const std::vector<Placement>& promised, ProductFault fault,
                   std::string_view what, ProductResult& result) {
  if (tensor.placements == promised) return true;
  result.fault = fault;
  result.reason =
      fmt::format("{} ends as {}, and {} is promised", what, layout_text(tensor.placements), layout_text(promised));
  return false;
}

// True when a module around this one takes every sum that the tensor leaves open here: an output of it, or the gradient
// of an input, that starts Partial there.
bool is_summed_above(const ProductWork& w, const LocalTensor& tensor, bool gradient, ProductResult& result) {
  for (const AxisId axis : open_axes(tensor.placements)) {
    if (is_closed_above(w.manifest, w.product.path, axis, gradient)) continue;
    result.fault = gradient ? ProductFault::GradientLayout : ProductFault::OutputLayout;
    result.reason = fmt::format("{} leaves a sum over {} open, and no module around it closes it",
                                gradient ? "the gradient of its input" : "its output", axis_name(w.mesh, axis));
    return false;
  }
  return true;
}

// What is promised to stay open is summed, for the comparison only.
bool close_sums(ProductWork& w, LocalTensor& tensor) {
  for (const AxisId axis : open_axes(tensor.placements)) {
    if (!redistribute_step(w.comm, w.mesh, {.kind = CollectiveKind::AllReduce, .axis = axis}, tensor)) return false;
  }
  return true;
}

struct DeviceFloats {
  std::shared_ptr<void> data;
  float* get() const { return static_cast<float*>(data.get()); }
};

bool allocate_floats(ProductWork& w, int64_t elements, DeviceFloats& floats) {
  const Device& device = *w.comm.device;
  floats.data = {device.allocate(static_cast<uint64_t>(std::max<int64_t>(elements, 1)) * sizeof(float)),
                 device.release};
  if (floats.data == nullptr)
    fail(w.comm, Code::TP8012,
         fmt::format("{}: no memory for {}", w.product.path,
                     human_bytes(static_cast<uint64_t>(elements) * sizeof(float))));
  return floats.data != nullptr;
}

void multiply(ProductWork& w, float* y, const void* a, const void* b, const Product& product, ProductResult& result) {
  const Clock::time_point begin = Clock::now();
  if (product.m != 0 && product.n != 0)
    w.comm.device->multiply(y, static_cast<const float*>(a), static_cast<const float*>(b), product);
  w.comm.device->synchronize();
  result.seconds += seconds_since(begin);
}

// Elements of the result that differ from sum over k of value(row, k) W(k, f), W's factors at `f` being `at` and along
// k `along`.
uint64_t wrong_products(const ProductWork& w, const LocalTensor& tensor, size_t dim, ProductValue value,
                        int64_t length_k, uint64_t along, uint64_t at) {
  const std::vector<Interval> intervals = activation_box(w, tensor);
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

// Indices of a dim of the weight that the rank has.
int64_t count(const ProductWork& w, size_t dim) { return static_cast<int64_t>(w.weight_indices[dim].size()); }

bool forward(ProductWork& w, const DeviceFloats& weight, LocalTensor& x, ProductResult& result) {
  const ModuleWeight& shape = w.product.weight;
  LocalTensor y = make_tensor(w, w.product.path + " output", w.out, w.y_from);
  if (!allocate_local(w.comm, w.mesh, y)) return false;
  const std::vector<Interval> y_box = activation_box(w, y);
  const int64_t rows = length(y_box[0]) * length(y_box[1]);
  multiply(w, static_cast<float*>(y.data.get()), x.data.get(), weight.get(),
           {.m = rows, .n = count(w, shape.out), .k = count(w, shape.in), .transpose_b = shape.out == 0}, result);
  const ManifestValue* output = first_value(w.product.layout->outputs);
  if (output != nullptr && !redistribute_all(w, y, output->forward, w.y_to)) return false;
  if (!keeps_promise(y, w.y_to, ProductFault::OutputLayout, "its output", result)) return true;
  if (output == nullptr && !is_summed_above(w, y, false, result)) return true;
  if (!close_sums(w, y)) return false;
  result.elements = y.bytes / sizeof(float);
  result.wrong = wrong_products(w, y, shape.out, x_value, w.in, kFactorV, kFactorU);
  return true;
}

// dy where the product takes it: cut as y is, and the same on every rank over which y's sums were open.
bool gradient_of_output(ProductWork& w, LocalTensor& dy, ProductResult& result) {
  const GradientLayouts needed = gradient_layouts(w.y_from, w.y_to, 0, GradientSums::None);
  const std::vector<Placement>& target = needed.to;
  dy = make_tensor(w, w.product.path + " gradient of output", w.out, w.dy ? w.dy->from : needed.from);
  const ManifestValue* output = first_value(w.product.layout->outputs);
  if (!make_filled(w, dy, dy_value, w.product.weight.out)) return false;
  if (output != nullptr && !w.dy) {
    result.fault = ProductFault::GradientLayout;
    result.reason = "the boundary says of no gradient of its output";
    return true;
  }
  if (output != nullptr && !redistribute_all(w, dy, output->backward, target)) return false;
  if (dy.placements == target) return true;
  result.fault = ProductFault::GradientLayout;
  result.reason = fmt::format("the gradient of its output arrives as {}, the product needs {}",
                              layout_text(dy.placements), layout_text(target));
  return true;
}

// dx = dy W' sums over the output features: over an axis that cuts them every rank has a summand.
bool gradient_of_input(ProductWork& w, const DeviceFloats& weight, const LocalTensor& dy, ProductResult& result) {
  const ModuleWeight& shape = w.product.weight;
  std::vector<Placement> placements = w.x_to;
  put(placements, w.weight_spec[shape.out], {.kind = PlacementKind::Partial});
  LocalTensor dx = make_tensor(w, w.product.path + " gradient of input", w.in, placements);
  if (!allocate_local(w.comm, w.mesh, dx)) return false;
  const std::vector<Interval> dx_box = activation_box(w, dx);
  multiply(w, static_cast<float*>(dx.data.get()), dy.data.get(), weight.get(),
           {.m = length(dx_box[0]) * length(dx_box[1]),
            .n = count(w, shape.in),
            .k = count(w, shape.out),
            .transpose_b = shape.in == 0},
           result);
  const ManifestValue* input = first_value(w.product.layout->inputs);
  if (input != nullptr && (!w.dx || w.dx->from != dx.placements)) {
    result.fault = ProductFault::GradientLayout;
    result.reason = fmt::format("the gradient of its input comes as {}, the boundary {}", layout_text(dx.placements),
                                w.dx ? "takes it for " + layout_text(w.dx->from) : "says of none");
    return true;
  }
  if (input != nullptr && !redistribute_all(w, dx, input->backward, w.dx->to)) return false;
  if (input != nullptr &&
      !keeps_promise(dx, w.dx->to, ProductFault::GradientLayout, "the gradient of its input", result))
    return true;
  if (!is_summed_above(w, dx, true, result)) return true;
  if (!close_sums(w, dx)) return false;
  result.input_elements = dx.bytes / sizeof(float);
  result.input_wrong = wrong_products(w, dx, shape.in, dy_value, w.out, kFactorU, kFactorV);
  return true;
}

// Elements of the rank's piece of dW that differ from the sum over all tokens of x dy.
uint64_t wrong_gradients(const ProductWork& w, const LocalTensor& gradient,
                         const std::vector<std::vector<int64_t>>& piece) {
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

bool gradient_of_weight(ProductWork& w, const LocalTensor& x, const LocalTensor& dy, ProductResult& result) {
  const ModuleWeight& shape = w.product.weight;
  const ParamLayout& layout = layout_of(w.manifest, *shape.param);
  std::vector<Placement> placements = plain_placements(w.weight_spec, w.mesh);
  // Sums over the tokens are open on every axis that cuts them.
  for (size_t axis = 0; axis < placements.size(); ++axis) {
    if (is_shard(dy.placements[axis]) && dy.placements[axis].dim < 2)
      placements[axis] = {.kind = PlacementKind::Partial};
  }
  LocalTensor gradient{.name = w.product.path + " gradient of weight",
                       .shape = layout.shape,
                       .segments = layout.sharding.segments,
                       .dtype = w.float32,
                       .placements = placements};
  if (!allocate_local(w.comm, w.mesh, gradient)) return false;
  const std::vector<Interval> dy_box = activation_box(w, dy);
  const bool out_first = shape.out == 0;
  multiply(w, static_cast<float*>(gradient.data.get()), out_first ? dy.data.get() : x.data.get(),
           out_first ? x.data.get() : dy.data.get(),
           {.m = count(w, 0), .n = count(w, 1), .k = length(dy_box[0]) * length(dy_box[1]), .transpose_a = true},
           result);
  // Over an axis that cuts no tokens here nothing is summed: every rank has the whole sum, and keeps it whole.
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
  // Axes that cut the tokens and are in no grad_reduce stay open: such a gradient is wrong on every rank, and is
  // counted so.
  Region region;
  std::ignore = region_of(gradient, w.mesh, w.comm.rank, region);
  std::vector<std::vector<int64_t>> piece;
  for (const std::vector<Interval>& runs : region) piece.push_back(indices_of(runs));
  result.weight_elements = gradient.bytes / sizeof(float);
  result.weight_wrong = wrong_gradients(w, gradient, piece);
  return true;
}

// The rank's part of the weight as the product uses it.
bool fill_weight(ProductWork& w, DeviceFloats& weight) {
  if (!allocate_floats(w, count(w, 0) * count(w, 1), weight)) return false;
  const bool out_first = w.product.weight.out == 0;
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

// x where the product takes it. An embedding's x is made of ids that every rank has for its tokens: one-hot rows, of
// which a rank needs the columns that its rows of the weight stand for.
bool make_input(ProductWork& w, LocalTensor& x) {
  x = make_tensor(w, w.product.path + " input", w.in, w.x_from);
  if (!w.product.weight.is_embedding) {
    const ManifestValue* input = first_value(w.product.layout->inputs);
    return make_filled(w, x, x_value, w.product.weight.in) &&
           (input == nullptr || redistribute_all(w, x, input->forward, w.x_to));
  }
  x.placements = x_needed(w, w.x_to);
  return make_filled(w, x, x_value, w.product.weight.in);
}

// Bytes that the rank's part of the product takes at its peak, about: the weight, its gradient, and their copies on the
// host.
uint64_t bytes_needed(const ProductWork& w) {
  return static_cast<uint64_t>(w.weight_indices[0].size()) * w.weight_indices[1].size() * sizeof(float) * 4;
}

}  // namespace

bool run_product(Comm& comm, const Manifest& manifest, const ModuleProduct& product, int64_t tokens,
                 ProductResult& result) {
  ProductWork w{.comm = comm,
                .manifest = manifest,
                .mesh = manifest.mesh,
                .product = product,
                .tokens = tokens,
                .coordinate = coordinate_of(manifest.mesh, comm.rank)};
  w.float32 = dtype_of("float32");
  begin_step(comm, "product of " + product.path);
  if (!lay_out_product(w, result)) return true;
  if (!vote_on_memory(comm, bytes_needed(w))) {
    result.fault = ProductFault::NoMemory;
    result.reason = fmt::format("a rank's part of it takes {}, more than is free", human_bytes(bytes_needed(w)));
    return true;
  }
  DeviceFloats weight;
  LocalTensor x, dy;
  if (!fill_weight(w, weight) || !make_input(w, x)) return false;
  if (!keeps_promise(x, product.weight.is_embedding ? x_needed(w, w.x_to) : w.x_to, ProductFault::InputLayout,
                     "its input", result))
    return true;
  if (!forward(w, weight, x, result)) return false;
  if (result.fault != ProductFault::None) return true;
  if (!gradient_of_output(w, dy, result)) return false;
  if (result.fault != ProductFault::None) return true;
  if (!product.weight.is_embedding && !gradient_of_input(w, weight, dy, result)) return false;
  if (result.fault != ProductFault::None) return true;
  return gradient_of_weight(w, x, dy, result);
}

}  // namespace tpplan
