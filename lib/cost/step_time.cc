#include "cost/step_time.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cost/link_seconds.h"

namespace tpplan {
namespace {

enum class TimeTermId : uint8_t {
  MatmulForward,
  MatmulBackward,
  MatmulAgain,
  Attention,
  Elementwise,
  Casts,
  Loss,
  Copies,
  ModelAxes,
  DataAxes,
  Contention,
  Optimizer
};
constexpr size_t kTimeTerms = static_cast<size_t>(TimeTermId::Optimizer) + 1;

// The name of a term, the unit of its amount, and how the amount becomes seconds.
struct TimeTermRow {
  std::string_view name, unit, formula;
};

constexpr TimeTermRow kTimeTermRows[] = {
    {"matmuls, forward", "FLOP",
     "max(FLOP / (peak x efficiency x k / (k + ramp) x tiles / whole waves), bytes / memory)"},
    {"matmuls, backward", "FLOP", "as forward, for the gradients of both operands"},
    {"matmuls, recomputed", "FLOP", "as forward, in the backward pass"},
    {"attention", "FLOP", "max(FLOP of unmasked scores / (peak x attention_efficiency), bytes / memory)"},
    {"elementwise", "B", "read and written / memory"},
    {"8-bit casts", "B", "of scales and casts / memory"},
    {"loss", "B", "read and written for the logits / memory"},
    {"FSDP copies", "B", "copied into and out of flat buffers / memory"},
    {"collectives of model axes", "B", "waited for: ring passes x ((n - 1) / n x payload / bandwidth + latencies)"},
    {"collectives of data axes", "B",
     "the part that outlasts the kernels of its layer: layers take the longer of both"},
    {"contention", "s", "of kernels and collectives side by side x contention"},
    {"optimizer", "B", "of gradients, weights, states and clipping / memory"},
};
static_assert(std::size(kTimeTermRows) == kTimeTerms);

// ---- facts about kernels ----

constexpr double kTileRows = 128, kTileColumns = 256;  // of a matmul's output that a processor computes at once
constexpr double kAttentionBackward = 2.5;             // FLOPs, with recomputed scores (FlashAttention-2, Dao 2023)
constexpr double kLogitBytesEager = 32, kLogitBytesFused = 10;  // read and written, forward and backward
constexpr double kScoreBytes = 10, kScoreBackwardBytes = 20;    // of attention that writes its scores
constexpr double kTransposeBytes = 1;  // of an 8-bit operand that is written in another layout, too
constexpr double kAsyncShare = 0.25;   // of a model axis's collective that asynchronous TP does not hide

// Bytes of a cast to 8 bits, for each element: 2 are read and 1 is written. Without a compiler the scale of a tensor or
// row is computed in a pass that reads it once more. Rows and columns have scales of their own, so both are cast.
double cast_bytes(const Run& run) {
  const double scale = run.compiled == Compiled::FullStep ? 0 : 2;
  switch (run.fp8) {
    case Fp8::None:
      return 0;
    case Fp8::Tensorwise:
      return 3 + scale;
    case Fp8::Rowwise:
      return 4 + scale;
    case Fp8::Delayed:
      return 3;
  }
  return 0;
}

struct Pricing {
  const StepSetting& setting;
  const Topology& topology;
  const AssumptionScale& scale;
  double memory = 0;  // bytes a second that kernels reach
  double peak16 = 0;  // FLOP/s of the model's dtype
  double peak8 = 0;   // of 8-bit matmuls
  std::vector<AxisPath> paths;
  std::array<double, kTimeTerms> seconds{}, amounts{};  // amounts in TimeTermRow::unit
};

double scaled(const Pricing& p, Assumption assumption) { return p.scale[static_cast<size_t>(assumption)]; }

void add_term(Pricing& p, TimeTermId which, double seconds, double amount) {
  p.seconds[static_cast<size_t>(which)] += seconds;
  p.amounts[static_cast<size_t>(which)] += amount;
}

double raw_peak(const Topology& topology, DType dtype) { return peak_of(topology, dtype) / topology.efficiency; }

double moved(const Pricing& p, double bytes) { return bytes / p.memory; }

// Returns the share of processors that work, in whole waves of tiles.
double wave_share(double batch, double m, double n, double processors) {
  if (processors <= 0) return 1;
  const double tiles = batch * std::ceil(m / kTileRows) * std::ceil(n / kTileColumns);
  const double waves = tiles / processors;
  return waves / std::ceil(waves);
}

struct MatmulShape {
  double batch = 1, m = 0, n = 0, k = 0;
};

// Returns the seconds of one matmul: FLOPs at the peak of its dtype times the efficiencies of its shape, or the bytes
// of its operands at the bandwidth of the memory, whichever is longer.
double matmul_seconds(const Pricing& p, const MatmulShape& s, DType dtype, bool in_fp8) {
  const GpuFigures& gpu = p.topology.gpu;
  const double peak = in_fp8 ? p.peak8 : raw_peak(p.topology, dtype);
  const double ratio = in_fp8 ? p.peak8 / p.peak16 : 1;
  const double best = (in_fp8 ? gpu.fp8_efficiency : p.topology.efficiency) * scaled(p, Assumption::Matmuls);
  const double shape = s.k / (s.k + gpu.ramp * ratio) * wave_share(s.batch, s.m, s.n, gpu.processors);
  const double flops = 2 * s.batch * s.m * s.n * s.k;
  const double width = in_fp8 ? 1 : static_cast<double>(byte_size(dtype, 1));
  const double bytes =
      s.batch * (width * (s.m * s.k + s.k * s.n) + static_cast<double>(byte_size(dtype, 1)) * s.m * s.n);
  return std::max(flops / (peak * best * shape), moved(p, bytes));
}

bool is_fp8(const Pricing& p, const Kernel& kernel) { return kernel.is_layer_linear && p.setting.run.fp8 != Fp8::None; }

// Returns the bytes of an element that FSDP gathers.
double gather_bytes(const Pricing& p) {
  const StepSetting& s = p.setting;
  return static_cast<double>(byte_size(s.run.gather_dtype.value_or(s.work.parameter_dtype), 1));
}

PassSeconds price_matmul(Pricing& p, const Kernel& k, double count) {
  const bool fp8 = is_fp8(p, k);
  const double forward = matmul_seconds(p, {k.batch, k.m, k.n, k.k}, k.dtype, fp8);
  double backward = 0;
  if (k.has_first_gradient) backward += matmul_seconds(p, {k.batch, k.m, k.k, k.n}, k.dtype, fp8);
  if (k.has_second_gradient) backward += matmul_seconds(p, {k.batch, k.k, k.n, k.m}, k.dtype, fp8);
  const double again = k.again ? forward : 0;
  const double gradients = (k.has_first_gradient ? 1 : 0) + (k.has_second_gradient ? 1 : 0);
  add_term(p, TimeTermId::MatmulForward, forward * count, k.flops * count);
  add_term(p, TimeTermId::MatmulBackward, backward * count, k.flops * gradients * count);
  if (k.again) add_term(p, TimeTermId::MatmulAgain, again * count, k.flops * count);
  if (!fp8) return {forward, backward, again};
  const double each = cast_bytes(p.setting.run), input = k.shares_input ? 0 : k.m * k.k, weight = k.k * k.n;
  const bool is_gathered_cast = gather_bytes(p) <= 1;  // FSDP casts its own shards before it gathers them
  const double cast = each * (input + (is_gathered_cast ? 0 : weight));
  const double cast_backward = each * k.m * k.n + kTransposeBytes * (input + weight), recast = k.again ? cast : 0;
  const double casts = cast + cast_backward + recast;
  add_term(p, TimeTermId::Casts, moved(p, casts) * count, casts * count);
  return {forward + moved(p, cast), backward + moved(p, cast_backward), again + moved(p, recast)};
}

PassSeconds price_attention(Pricing& p, const Kernel& k, double count) {
  const Run& run = p.setting.run;
  const bool is_flash = run.attention == AttentionKernel::Flash;
  const double share = is_flash && run.causal ? 0.5 : 1;
  const double rate =
      raw_peak(p.topology, k.dtype) * p.topology.gpu.attention_efficiency * scaled(p, Assumption::Attention);
  const double written = is_flash ? 0 : kScoreBytes * k.scores,
               written_backward = is_flash ? 0 : kScoreBackwardBytes * k.scores;
  const double forward = std::max(k.flops * share / rate, moved(p, k.bytes)) + moved(p, written);
  const double factor = is_flash ? kAttentionBackward : 2;
  double backward = 0;
  if (k.has_backward)
    backward = std::max(factor * k.flops * share / rate, moved(p, k.backward_bytes)) + moved(p, written_backward);
  const double again = k.again ? forward : 0;
  const double passes = 1 + (k.has_backward ? factor : 0) + (k.again ? 1 : 0);
  add_term(p, TimeTermId::Attention, (forward + backward + again) * count, k.flops * share * passes * count);
  return {forward, backward, again};
}

PassSeconds price_elementwise(Pricing& p, const Kernel& k, double count) {
  const double backward = k.has_backward ? k.backward_bytes : 0, again = k.again ? k.bytes : 0;
  const double bytes = k.bytes + backward + again;
  add_term(p, TimeTermId::Elementwise, moved(p, bytes) * count, bytes * count);
  return {moved(p, k.bytes), moved(p, backward), moved(p, again)};
}

PassSeconds price_kernel(Pricing& p, const Kernel& kernel, double count) {
  switch (kernel.kind) {
    case KernelKind::Matmul:
      return price_matmul(p, kernel, count);
    case KernelKind::Attention:
      return price_attention(p, kernel, count);
    case KernelKind::Elementwise:
      break;
  }
  return price_elementwise(p, kernel, count);
}

// Returns the share of a collective's bytes that is sent: inputs of 8-bit linears are cast before they are gathered, if
// a tensor has one scale.
double sent_share(const Pricing& p, const LayerWork& layer, const BlockingCall& call) {
  const bool is_cast = p.setting.run.fp8 == Fp8::Tensorwise && layer.number >= 0;
  return is_cast && call.kind == CollectiveKind::AllGather ? 0.5 : 1;
}

PassSeconds price_call(Pricing& p, const LayerWork& layer, const BlockingCall& call, double count) {
  const double all = ring_seconds(call.kind, call.bytes * sent_share(p, layer, call),
                                  p.setting.mesh.axes[call.axis].size, p.paths[call.axis]);
  const double waited = p.setting.run.async_tp ? kAsyncShare * all : all, again = call.again ? waited : 0;
  add_term(p, TimeTermId::ModelAxes, (waited + again) * count, (call.again ? 2 : 1) * call.bytes * count);
  return {call.backward ? 0 : waited, call.backward ? waited : 0, again};
}

// ---- data axes ----

double reduce_bytes(const Pricing& p) {
  return static_cast<double>(byte_size(p.setting.run.reduce_dtype.value_or(dtype_of("float32")), 1));
}

double fsdp_ranks(const Pricing& p) {
  const AxisId axis = p.setting.fsdp_axis;
  return axis == kNoAxis ? 1 : static_cast<double>(p.setting.mesh.axes[axis].size);
}

double fsdp_call(const Pricing& p, CollectiveKind kind, double bytes) {
  const AxisId axis = p.setting.fsdp_axis;
  return axis == kNoAxis ? 0 : ring_seconds(kind, bytes, p.setting.mesh.axes[axis].size, p.paths[axis]);
}

// Returns the elements of a layer's gradients that a data axis only reduces.
double plain_elements(const Pricing& p, const LayerWork& layer, AxisId axis) {
  return (axis == p.setting.fsdp_axis ? 0 : layer.gathered / fsdp_ranks(p)) + layer.replicated;
}

// Returns the seconds in which plain data axes reduce the gradients of a layer.
double plain_reductions(const Pricing& p, const LayerWork& layer) {
  double seconds = 0;
  for (const AxisId axis : p.setting.data_axes) {
    seconds += ring_seconds(CollectiveKind::AllReduce, plain_elements(p, layer, axis) * reduce_bytes(p),
                            p.setting.mesh.axes[axis].size, p.paths[axis]);
  }
  return seconds;
}

// True if the backward pass gathers the weights of a layer again.
bool gathers_again(const Pricing& p, const LayerWork& layer) {
  return p.setting.has_backward && p.setting.run.reshard_after_forward && layer.number >= 0;
}

PassSeconds data_calls(Pricing& p, const LayerWork& layer, bool is_last_batch) {
  const double gather = fsdp_call(p, CollectiveKind::AllGather, layer.gathered * gather_bytes(p));
  if (!p.setting.has_backward) return {.forward = gather, .backward = 0};
  PassSeconds pass{.forward = gather,
                   .backward = fsdp_call(p, CollectiveKind::ReduceScatter, layer.gathered * reduce_bytes(p))};
  if (gathers_again(p, layer)) pass.backward += gather;
  if (is_last_batch) pass.backward += plain_reductions(p, layer);
  return pass;
}

// Returns the payload of the collectives of data axes.
double data_bytes(const Pricing& p, const LayerWork& layer, bool is_last_batch) {
  const double gathers = p.setting.fsdp_axis == kNoAxis ? 0 : gathers_again(p, layer) ? 2 : 1;
  if (!p.setting.has_backward) return gathers * layer.gathered * gather_bytes(p);
  double bytes = layer.gathered * (gathers * gather_bytes(p) + (gathers > 0 ? reduce_bytes(p) : 0));
  for (const AxisId axis : p.setting.data_axes) {
    if (is_last_batch && p.setting.mesh.axes[axis].size > 1) bytes += plain_elements(p, layer, axis) * reduce_bytes(p);
  }
  return bytes;
}

// Returns what FSDP copies between parameters and flat buffers: gathered weights in and out, gradients in.
PassSeconds price_copies(Pricing& p, const LayerWork& layer, double count) {
  if (p.setting.fsdp_axis == kNoAxis || fsdp_ranks(p) < 2) return {};
  const double weights = layer.gathered * 2 * gather_bytes(p);
  const double gradients = p.setting.has_backward ? layer.gathered * (gather_bytes(p) + reduce_bytes(p)) : 0;
  const double backward = gradients + (gathers_again(p, layer) ? weights : 0);
  add_term(p, TimeTermId::Copies, moved(p, weights + backward) * count, (weights + backward) * count);
  return {moved(p, weights), moved(p, backward)};
}

// Adds what collectives beside kernels cost: what outlasts them, and what both lose.
void overlap(Pricing& p, double kernels, double calls, double count) {
  const double both = std::min(kernels, calls) * count;
  add_term(p, TimeTermId::DataAxes, std::max(0.0, calls - kernels) * count, 0);
  add_term(p, TimeTermId::Contention, p.topology.gpu.contention * both, both);
}

PassSeconds& operator+=(PassSeconds& a, const PassSeconds& b) {
  a.forward += b.forward;
  a.backward += b.backward;
  a.again += b.again;
  return a;
}

// Prices a layer in all micro-batches. The collectives of what is outside of layers have no kernels beside them.
void price_layer(Pricing& p, const LayerWork& layer) {
  const auto batches = static_cast<double>(std::max<int64_t>(p.setting.run.accumulation, 1));
  const double count = static_cast<double>(layer.count) * batches;
  PassSeconds kernels = price_copies(p, layer, count);
  for (const Kernel& kernel : layer.kernels) kernels += price_kernel(p, kernel, count);
  for (const BlockingCall& call : layer.calls) kernels += price_call(p, layer, call, count);
  for (const bool is_last : {false, true}) {
    const double times = static_cast<double>(layer.count) * (is_last ? 1 : batches - 1);
    const PassSeconds calls = data_calls(p, layer, is_last);
    add_term(p, TimeTermId::DataAxes, 0, data_bytes(p, layer, is_last) * times);
    const bool is_outside_layers = layer.number < 0;
    overlap(p, is_outside_layers ? 0 : kernels.forward, calls.forward, times);
    overlap(p, is_outside_layers ? 0 : kernels.backward + kernels.again, calls.backward, times);
  }
}

// Returns the collectives that data_calls sums up.
std::vector<OverlappedCall> overlapped_calls(const Pricing& p, const LayerWork& layer) {
  std::vector<OverlappedCall> calls;
  const AxisId fsdp = p.setting.fsdp_axis;
  if (fsdp != kNoAxis) {
    const double weights = layer.gathered * gather_bytes(p), gradients = layer.gathered * reduce_bytes(p);
    const double gather = fsdp_call(p, CollectiveKind::AllGather, weights);
    calls.push_back({CollectiveKind::AllGather, fsdp, weights, {gather, gathers_again(p, layer) ? gather : 0}});
    calls.push_back(
        {CollectiveKind::ReduceScatter, fsdp, gradients, {0, fsdp_call(p, CollectiveKind::ReduceScatter, gradients)}});
  }
  for (const AxisId axis : p.setting.data_axes) {
    const double bytes = plain_elements(p, layer, axis) * reduce_bytes(p);
    const double reduction =
        ring_seconds(CollectiveKind::AllReduce, bytes, p.setting.mesh.axes[axis].size, p.paths[axis]);
    calls.push_back({CollectiveKind::AllReduce, axis, bytes, {0, reduction}, true});
  }
  return calls;
}

LayerSeconds layer_seconds(Pricing& p, const LayerWork& layer) {
  LayerSeconds layer_parts{.copies = price_copies(p, layer, 1), .overlapped = overlapped_calls(p, layer)};
  for (const Kernel& kernel : layer.kernels) layer_parts.kernels.push_back(price_kernel(p, kernel, 1));
  for (const BlockingCall& call : layer.calls) layer_parts.calls.push_back(price_call(p, layer, call, 1));
  return layer_parts;
}

void price_loss(Pricing& p) {
  const Run& run = p.setting.run;
  const bool is_fused =
      run.loss == LossKernel::Fused || (run.loss != LossKernel::Plain && run.compiled != Compiled::Eager);
  const double each = is_fused ? kLogitBytesFused : kLogitBytesEager;
  const auto batches = static_cast<double>(std::max<int64_t>(run.accumulation, 1));
  const double bytes = batches * each * p.setting.work.logits;
  add_term(p, TimeTermId::Loss, moved(p, bytes), bytes);
}

// Returns the bytes that the optimizer and clipping move for a parameter: gradients are read for their norm, scaled,
// and read again; weights and states are read and written. foreach kernels pass over states and temporaries one by one.
double optimizer_bytes(const Pricing& p) {
  const StepSetting& s = p.setting;
  const bool is_sharded = s.fsdp_axis != kNoAxis;
  const TrainedBytes each = trained_bytes(s.recipe, s.work.parameter_dtype, 1);
  const auto weight = static_cast<double>(byte_size(s.work.parameter_dtype, 1));
  const auto gradient = static_cast<double>(each.gradient), state = static_cast<double>(each.state) * s.recipe.states;
  if (s.recipe.gradient == ElementDtype::None) return 0;
  const auto master = static_cast<double>(each.master);
  const double weights = master > 0 ? 2 * master + (is_sharded ? 0 : weight) : 2 * weight;
  const double clipping = 3 * gradient, once = gradient + weights + 2 * state;
  return clipping +
         (s.run.optimizer == OptimizerKernel::Fused || s.run.compiled == Compiled::FullStep ? once : 2.5 * once);
}

void price_optimizer(Pricing& p) {
  const double bytes = optimizer_bytes(p) * p.setting.updated_elements;
  add_term(p, TimeTermId::Optimizer, moved(p, bytes), bytes);
}

Pricing begin_pricing(const StepSetting& setting, const Topology& topology, const AssumptionScale& scale) {
  Pricing p{.setting = setting, .topology = topology, .scale = scale, .paths = {}};
  p.memory = topology.gpu.memory_bandwidth * topology.gpu.memory_efficiency * scaled(p, Assumption::Memory);
  p.peak16 = raw_peak(topology, setting.work.parameter_dtype);
  p.peak8 = raw_peak(topology, dtype_of("float8_e4m3fn"));
  for (size_t axis = 0; axis < setting.mesh.axes.size(); ++axis) {
    p.paths.push_back(setting.mesh.axes[axis].size < 2 ? AxisPath{}
                                                       : axis_path(topology, setting.mesh, static_cast<AxisId>(axis)));
    p.paths.back().bandwidth *= scaled(p, Assumption::Links);
  }
  return p;
}

// ---- the interval ----

constexpr double kModelDeviation = 0.09;  // of ln(seconds): what no assumption explains
constexpr double kSlopeStep = 0.05;       // of ln(factor), for slopes
constexpr double kFourOfFive = 1.2816;    // standard deviations to either side that hold 80 % of a normal distribution
// By Assumption, standard deviations of ln(factor): how much software changes what a GPU reaches.
constexpr std::array<double, kAssumptions> kPriorDeviations = {0.20, 0.40, 0.10, 0.15};

}  // namespace

std::string_view to_text(Assumption assumption) {
  static constexpr std::string_view kAssumptionTexts[] = {"the efficiency of matmuls", "the efficiency of attention",
                                                          "the memory bandwidth that kernels reach",
                                                          "the bandwidth that collectives reach"};
  static_assert(std::size(kAssumptionTexts) == kAssumptions);
  return kAssumptionTexts[static_cast<size_t>(assumption)];
}

std::vector<MissingFigure> missing_figures(const StepSetting& setting, const Topology& topology) {
  const GpuFigures& gpu = topology.gpu;
  std::vector<MissingFigure> missing;
  const auto need = [&](double figure, std::string_view key, TimeTermId which) {
    if (figure <= 0) missing.push_back({key, kTimeTermRows[static_cast<size_t>(which)].name});
  };
  need(topology.peak.empty() ? 0 : 1, "peak_flops", TimeTermId::MatmulForward);
  need(gpu.ramp, "ramp", TimeTermId::MatmulForward);
  need(gpu.memory_bandwidth, "memory_bandwidth", TimeTermId::Elementwise);
  need(gpu.memory_efficiency, "memory_efficiency", TimeTermId::Elementwise);
  const auto has_attention = [](const LayerWork& layer) {
    return std::any_of(layer.kernels.begin(), layer.kernels.end(),
                       [](const Kernel& k) { return k.kind == KernelKind::Attention; });
  };
  if (std::any_of(setting.work.layers.begin(), setting.work.layers.end(), has_attention))
    need(gpu.attention_efficiency, "attention_efficiency", TimeTermId::Attention);
  if (setting.run.fp8 != Fp8::None) {
    need(gpu.fp8_efficiency, "fp8_efficiency", TimeTermId::MatmulForward);
    const auto is_8_bit = [](const auto& peak) { return dtypes()[peak.first].bits == 8; };
    if (std::none_of(topology.peak.begin(), topology.peak.end(), is_8_bit))
      missing.push_back({"peak_flops: {float8_e4m3fn: ...}", kTimeTermRows[0].name});
  }
  return missing;
}

PricedTime step_seconds(const StepSetting& setting, const Topology& topology, const AssumptionScale& scale) {
  Pricing p = begin_pricing(setting, topology, scale);
  for (const LayerWork& layer : setting.work.layers) price_layer(p, layer);
  if (setting.has_backward) {
    price_loss(p);
    price_optimizer(p);
  }
  PricedTime step;
  for (size_t i = 0; i < kTimeTerms; ++i) {
    if (p.seconds[i] <= 0) continue;
    step.seconds += p.seconds[i];
    const TimeTermRow& row = kTimeTermRows[i];
    const std::string amount = p.amounts[i] > 0 ? fmt::format("{:.4g} {} ", p.amounts[i], row.unit) : std::string();
    step.terms.push_back({row.name, p.seconds[i], amount + std::string(row.formula)});
  }
  return step;
}

StepBreakdown step_breakdown(const StepSetting& setting, const Topology& topology, const AssumptionScale& scale) {
  Pricing p = begin_pricing(setting, topology, scale);
  StepBreakdown parts;
  for (const LayerWork& layer : setting.work.layers) parts.layers.push_back(layer_seconds(p, layer));
  price_loss(p);
  price_optimizer(p);
  parts.loss = p.seconds[static_cast<size_t>(TimeTermId::Loss)];
  parts.optimizer = p.seconds[static_cast<size_t>(TimeTermId::Optimizer)];
  return parts;
}

AssumptionCovariance prior_covariance() {
  AssumptionCovariance covariance{};
  for (size_t i = 0; i < kAssumptions; ++i) covariance[i][i] = kPriorDeviations[i] * kPriorDeviations[i];
  return covariance;
}

StepInterval step_interval(const StepSecondsFunction& seconds, const AssumptionScale& scale,
                           const AssumptionCovariance& covariance) {
  const double expected = seconds(scale);
  StepInterval found;
  std::array<double, kAssumptions> slope{};  // of ln(seconds) by ln(factor)
  for (size_t i = 0; i < kAssumptions; ++i) {
    AssumptionScale worse = scale;
    worse[i] *= std::exp(-kSlopeStep);
    slope[i] = std::log(seconds(worse) / expected) / kSlopeStep;
    const double change = slope[i] * std::sqrt(covariance[i][i]);
    if (change <= found.widest_change) continue;
    found.widest = static_cast<Assumption>(i);
    found.widest_change = change;
  }
  double variance = kModelDeviation * kModelDeviation;
  for (size_t i = 0; i < kAssumptions; ++i) {
    for (size_t j = 0; j < kAssumptions; ++j) variance += slope[i] * covariance[i][j] * slope[j];
  }
  const double factor = std::exp(kFourOfFive * std::sqrt(variance));
  found.low = expected / factor;
  found.high = expected * factor;
  return found;
}

}  // namespace tpplan
