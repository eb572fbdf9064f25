#include "model/quantized.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>

#include "model/module_kinds.h"

namespace tpplan {
namespace {

// Names of dims that follow none of the weight.
constexpr std::string_view kBlockDims[] = {"block0", "block1", "block2", "block3"};

// The name of a companion and of its weight. `*` stands for the same text in both.
struct CompanionRow {
  std::string_view companion;
  std::string_view weight;
  int first_dim = 0;              // the dim of the weight that the first dim of the companion follows
  bool has_rule_of_stem = false;  // transformers gives both the rule of the name that `*` stands for
};

// clang-format off
constexpr CompanionRow kCompanions[] = {
    {.companion = "*_scale_inv", .weight = "*", .has_rule_of_stem = true},
    {"*_scale", "*"},
    {"*_scale", "*_packed"},
    {"*_scale_2", "*"},
    {"*_global_scale", "*_packed"},
    {"*_zero_point", "*"},
    {"*_zero_point", "*_packed"},
    {"*_g_idx", "*_packed", 1},
    {.companion = "*_scales", .weight = "*_blocks", .has_rule_of_stem = true},
    {"scales", "qweight"},
    {"qzeros", "qweight"},
    {"g_idx", "qweight"},
    // Scales of inputs, which have one element.
    {"input_scale", "weight"},
    {"activation_scale", "weight"},
    {"input_global_scale", "weight_packed"},
};
// clang-format on

// True if `name` matches the pattern; `stem` receives the text that `*` stands for.
bool matches(std::string_view pattern, std::string_view name, std::string_view& stem) {
  if (!pattern.starts_with('*')) return name == pattern;
  pattern.remove_prefix(1);
  if (!name.ends_with(pattern) || name.size() == pattern.size()) return false;
  stem = name.substr(0, name.size() - pattern.size());
  return true;
}

// True if `name` is the pattern with `stem` in place of `*`.
bool is_named(std::string_view pattern, std::string_view stem, std::string_view name) {
  if (!pattern.starts_with('*')) return name == pattern;
  return name.starts_with(stem) && name.substr(stem.size()) == pattern.substr(1);
}

int64_t declared_block(const ModelGraph& graph, const Param& weight, size_t dim) {
  if (weight.extras == kNone) return 0;
  for (const auto& [declared, block] : graph.extras[weight.extras].granularity) {
    if (declared == dim) return block;
  }
  return 0;
}

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

// Returns how a dim of `count` elements follows a weight's dim of `size` stored elements. Blocks are powers of two in
// every format, and the last block may be short; so 448 rows with 4 scales have blocks of 128, not of 112. Empty if the
// sizes do not fit.
std::optional<CompanionDim> fit_dim(int weight_dim, int64_t size, int64_t count, int64_t declared) {
  if (count == size) return CompanionDim{.weight_dim = weight_dim};
  if (count == 1) return CompanionDim{};
  if (count < 1 || size < 1) return std::nullopt;
  if (count > size) {
    if (count % size != 0) return std::nullopt;
    return CompanionDim{.weight_dim = weight_dim, .repeat = count / size};
  }
  if (declared > 0 && ceil_div(size, declared) == count)
    return CompanionDim{.weight_dim = weight_dim, .block = declared};
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(size, count))));
  if (ceil_div(size, power) == count) return CompanionDim{.weight_dim = weight_dim, .block = power};
  if (size % count == 0) return CompanionDim{.weight_dim = weight_dim, .block = size / count};
  return std::nullopt;
}

std::optional<Companion> fit(const ModelGraph& graph, const Param& param, ParamId weight_id, int first_dim) {
  const Param& weight = graph.params[weight_id];
  const std::span<const int64_t> shape = shape_of(graph, param), sizes = shape_of(graph, weight);
  Companion companion{.weight = weight_id, .dims = {}};
  if (std::ranges::all_of(shape, [](int64_t size) { return size == 1; })) {
    companion.dims.resize(shape.size());
    return companion;
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const size_t of = dim + static_cast<size_t>(first_dim);
    if (of >= sizes.size()) return std::nullopt;
    const auto fitted = fit_dim(static_cast<int>(of), sizes[of], shape[dim], declared_block(graph, weight, of));
    if (!fitted) return std::nullopt;
    companion.dims.push_back(*fitted);
  }
  return companion;
}

}  // namespace

bool is_quantized(DType dtype) {
  const DTypeRow& row = dtypes()[dtype];
  return row.kind == DTypeKind::Float ? row.bits <= 8 : row.kind != DTypeKind::Bool && row.kind != DTypeKind::Complex;
}

bool has_quantized(const ModelGraph& graph) {
  return std::ranges::any_of(graph.params, [](const Param& param) { return is_quantized(param.dtype); });
}

std::optional<Companion> find_companion(const ModelGraph& graph, ParamId id) {
  const Param& param = graph.params[id];
  const Module& module = graph.modules[param.module];
  for (const CompanionRow& row : kCompanions) {
    std::string_view stem;
    if (!matches(row.companion, param.name, stem)) continue;
    for (ParamId other = module.first_param; other < module.first_param + module.param_count; ++other) {
      const Param& weight = graph.params[other];
      if (other == id || !is_named(row.weight, stem, weight.name) || !is_quantized(weight.dtype)) continue;
      return fit(graph, param, other, row.first_dim);
    }
  }
  return std::nullopt;
}

std::string_view quantizer_stem(std::string_view name) {
  std::string_view stem;
  for (const CompanionRow& row : kCompanions) {
    if (!row.has_rule_of_stem) continue;
    for (const std::string_view pattern : {row.companion, row.weight}) {
      if (pattern != "*" && matches(pattern, name, stem)) return stem;
    }
  }
  return {};
}

std::vector<int64_t> companion_segments(const CompanionDim& dim, std::span<const int64_t> segments) {
  std::vector<int64_t> sizes;
  for (const int64_t size : segments) {
    if (size % dim.block != 0) return {};
    sizes.push_back(size / dim.block * dim.repeat);
  }
  return sizes;
}

void name_companion_dims(ModelGraph& graph) {
  if (!has_quantized(graph)) return;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    Param& param = graph.params[id];
    const Module& module = graph.modules[param.module];
    if (module.param_count < 2 || param.ndim == 0 || param.ndim > std::size(kBlockDims)) continue;
    if (param.extras != kNone && !graph.extras[param.extras].dims.empty()) continue;
    const std::optional<Companion> companion = find_companion(graph, id);
    if (!companion) continue;
    const Param& weight = graph.params[companion->weight];
    const std::span<const std::string_view> of_weight = dims_of(graph, module, weight);
    if (of_weight.empty()) continue;
    ParamExtras extras;
    for (size_t dim = 0; dim < companion->dims.size(); ++dim) {
      const int follows = companion->dims[dim].weight_dim;
      extras.dims.push_back(follows < 0 ? kBlockDims[dim] : of_weight[static_cast<size_t>(follows)]);
      if (weight.extras == kNone) continue;
      for (const DimSegments& segments : graph.extras[weight.extras].segments) {
        if (follows != static_cast<int>(segments.dim)) continue;
        std::vector<int64_t> sizes = companion_segments(companion->dims[dim], segments.sizes);
        if (!sizes.empty()) extras.segments.push_back({dim, std::move(sizes)});
      }
    }
    if (param.extras == kNone) {
      param.extras = static_cast<uint32_t>(graph.extras.size());
      graph.extras.push_back(std::move(extras));
    } else {
      graph.extras[param.extras].dims = std::move(extras.dims);
      graph.extras[param.extras].segments = std::move(extras.segments);
    }
  }
}

}  // namespace tpplan
