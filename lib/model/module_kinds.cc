#include "model/module_kinds.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tpplan {
namespace {

using enum ModuleKind;

enum Frameworks : uint8_t { kTorch = 1, kJax = 2, kKeras = 4, kAny = 7 };

uint8_t mask_of(Framework framework) { return static_cast<uint8_t>(1u << static_cast<unsigned>(framework)); }

struct KindRow {
  uint8_t frameworks;
  std::string_view type;
  ModuleKind kind;
};

// Kinds of types by their exact name.
constexpr KindRow kExactKinds[] = {
    {kTorch, "Linear", Linear},
    {kTorch, "NonDynamicallyQuantizableLinear", Linear},
    {kTorch, "Conv1D", Linear},  // transformers' transposed Linear (GPT-2)
    {kTorch, "Embedding", Embedding},
    {kTorch, "EmbeddingBag", Embedding},
    {kTorch | kJax, "LayerNorm", Norm},
    {kTorch | kJax, "RMSNorm", Norm},
    {kTorch | kJax, "GroupNorm", Norm},
    {kJax, "Linear", Linear},
    {kJax, "Dense", Linear},
    {kJax, "DenseGeneral", Linear},
    {kJax, "Embedding", Embedding},
    {kJax, "Embed", Embedding},
    {kKeras, "Dense", Linear},
    {kKeras, "EinsumDense", Linear},
    {kKeras, "Embedding", Embedding},
    {kKeras, "ReversibleEmbedding", Embedding},
    {kKeras, "TokenAndPositionEmbedding", Other},
    {kAny, "RotaryEmbedding", Other},
    {kAny, "Sequential", Other},
};

// Kinds of types by the ending of their name. The first match applies.
// Rows of kind Other exclude names from the endings below them: a RotaryEmbedding has no embedding weight.
constexpr KindRow kKindEndings[] = {
    {kAny, "RotaryEmbedding", Other},
    {kAny, "PatchEmbedding", Other},
    {kAny, "Norm", Norm},
    {kAny, "Normalization", Norm},
    {kAny, "NormGated", Norm},
    {kAny, "Norm1d", Norm},
    {kAny, "Norm2d", Norm},
    {kAny, "Norm3d", Norm},
    {kAny, "Experts", Experts},
    {kTorch | kJax, "Linear", Linear},
    {kKeras, "Dense", Linear},
    {kAny, "Embedding", Embedding},
};

struct DimsRow {
  uint8_t frameworks;
  ModuleKind kind;
  std::string_view type;   // empty matches any type of the kind
  std::string_view param;  // empty matches any parameter
  size_t ndim;
  std::array<std::string_view, 5> dims;
};

// Names of dims; the first matching row applies. Torch stores a Linear as (out, in) (torch.nn.Linear.weight), and so
// does equinox (equinox.nn.Linear.weight). Flax and Keras use (in, out) (flax.linen.Dense, keras.layers.Dense).
constexpr DimsRow kDims[] = {
    {kTorch, Linear, "Conv1D", "weight", 2, {"in", "out"}},
    {kTorch | kJax, Linear, "", "weight", 2, {"out", "in"}},
    {kTorch, Linear, "", "qweight", 2, {"in", "out"}},        // GPTQ, AWQ
    {kTorch, Linear, "", "weight_packed", 2, {"out", "in"}},  // compressed-tensors
    {kJax | kKeras, Linear, "", "kernel", 2, {"in", "out"}},
    {kAny, Linear, "", "", 1, {"out"}},
    {kTorch | kJax, Embedding, "", "weight", 2, {"in", "out"}},
    {kJax, Embedding, "", "embedding", 2, {"in", "out"}},
    {kKeras, Embedding, "", "embeddings", 2, {"in", "out"}},
    {kKeras, Embedding, "", "reverse_embeddings", 2, {"out", "in"}},
    {kAny, Norm, "", "", 1, {"out"}},
    // transformers 5.23 stores experts as [expert, out, in], except in these two families and in the biases of gpt-oss.
    {kTorch, Experts, "Llama4TextExperts", "", 3, {"expert", "in", "out"}},
    {kTorch, Experts, "GptOssExperts", "", 3, {"expert", "in", "out"}},
    {kTorch, Experts, "", "", 3, {"expert", "out", "in"}},
    {kTorch, Experts, "", "", 4, {"expert", "out", "in", "packed"}},  // mxfp4: 16 bytes a block of 32 inputs
    {kTorch, Experts, "", "", 2, {"expert", "out"}},
};

struct FeaturesRow {
  std::string_view ending;  // of the type's name
  Features features;
};

// Types of transformers 5.23 whose features do not follow from their kind, by the ending of the name. Some have a 2-D
// weight or end in "Linear" but lack the attributes; others are the reverse. The first match applies.
constexpr FeaturesRow kFeatures[] = {
    {"Conv1D", kNoFeatures},
    {"PhimoeTopKRouter", kBothFeatures},  // subclass of Linear
    {"Llama4Router", kBothFeatures},      // subclass of Linear
    {"Router", kNoFeatures},
    {"AMSoftmaxLoss", kNoFeatures},
    {"MoshiLinear", kNoFeatures},
    {"KyutaiSpeechToTextLinear", kNoFeatures},
    {"FlexibleLinear", kNoFeatures},
    {"ClippableLinear", kNoFeatures},
    {"SnakeBeta", kInFeatures},
    {"AriaProjector", kInFeatures},
    {"ZoeDepthSeedBinRegressor", kInFeatures},
    {"Backbone", kOutFeatures},
};

constexpr std::string_view kFeaturesNames[] = {"none", "in", "out", "both"};
static_assert(std::size(kFeaturesNames) == (kInFeatures | kOutFeatures) + 1);

}  // namespace

ModuleKind kind_of_type(Framework framework, std::string_view type, bool owns_parameters) {
  const uint8_t mask = mask_of(framework);
  for (const KindRow& row : kExactKinds) {
    if ((row.frameworks & mask) != 0 && row.type == type) return row.kind;
  }
  for (const KindRow& row : kKindEndings) {
    if ((row.frameworks & mask) == 0 || !type.ends_with(row.type)) continue;
    const bool needs_parameters = row.kind == Linear || row.kind == Embedding;
    return needs_parameters && !owns_parameters ? Other : row.kind;
  }
  return Other;
}

bool is_torch_linear_or_embedding(const ModelGraph& graph, const Module& module) {
  const std::string_view type = type_of(graph, module);
  return (module.kind == Linear || module.kind == Embedding) && type != "Conv1D" && type != "EmbeddingBag";
}

constexpr std::string_view kKindNames[] = {"other", "linear", "embedding", "norm", "experts"};
static_assert(std::size(kKindNames) == static_cast<size_t>(ModuleKind::Experts) + 1);

bool find_module_kind(std::string_view name, ModuleKind& kind) {
  const auto found = std::find(std::begin(kKindNames), std::end(kKindNames), name);
  kind = static_cast<ModuleKind>(found - std::begin(kKindNames));
  return found != std::end(kKindNames);
}

bool has_num_experts(const ModelGraph& graph, const Module& module) {
  return module.kind == Experts || (module.attributes != kNone && graph.attributes[module.attributes].num_experts > 0);
}

Features features_of(const ModelGraph& graph, const Module& module) {
  if (module.features != kFeaturesNotGiven) return module.features;
  if (module.kind_is_given && module.kind == Linear) return kBothFeatures;
  const std::string_view type = type_of(graph, module);
  for (const FeaturesRow& row : kFeatures) {
    if (type.ends_with(row.ending)) return row.features;
  }
  if (module.kind != Other) return module.kind == Linear ? kBothFeatures : kNoFeatures;
  const auto params = params_of(graph, module);
  const bool like_linear =
      std::any_of(params.begin(), params.end(), [](const Param& p) { return p.name == "weight" && p.ndim == 2; });
  return type.ends_with("Linear") || like_linear ? kBothFeatures : kNoFeatures;
}

bool find_features(std::string_view name, Features& features) {
  const auto found = std::find(std::begin(kFeaturesNames), std::end(kFeaturesNames), name);
  features = static_cast<Features>(found - std::begin(kFeaturesNames));
  return found != std::end(kFeaturesNames);
}

std::string_view to_text(Features features) { return kFeaturesNames[static_cast<size_t>(features)]; }

std::string_view to_text(ModuleKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::span<const std::string_view> dims_of(const ModelGraph& graph, const Module& module, const Param& param) {
  if (param.extras != kNone && !graph.extras[param.extras].dims.empty()) return graph.extras[param.extras].dims;
  const std::string_view type = type_of(graph, module);
  for (const DimsRow& row : kDims) {
    const bool fits = (row.frameworks & mask_of(graph.framework)) != 0 && row.kind == module.kind &&
                      row.ndim == param.ndim && (row.type.empty() || row.type == type) &&
                      (row.param.empty() || row.param == param.name);
    if (fits) return {row.dims.data(), row.ndim};
  }
  return {};
}

int find_dim(std::span<const std::string_view> dims, std::string_view name) {
  const auto found = std::find(dims.begin(), dims.end(), name);
  return found == dims.end() ? -1 : static_cast<int>(found - dims.begin());
}

}  // namespace tpplan
