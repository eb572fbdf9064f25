#include "hf_configs/config_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "hf_configs/config_families.h"
#include "hf_configs/graph_parts.h"

namespace tpplan {
namespace {

// Limits the model that a config of a few lines describes: one large number could exhaust the memory.
constexpr int64_t kMaxLayers = 10000;
// Fields that change the tensors of a checkpoint, but not the model that transformers builds from the config.
constexpr std::string_view kUnreadParts[] = {"quantization_config", "compression_config"};

struct ConfigBuilder {
  const ConfigFile& config;
  const ConfigFamily& family;
  ModelGraph& graph;
  Diagnostics& diagnostics;
  ConfigSizes& sizes;
  std::string_view activation;        // its class name
  std::vector<BiasCondition> biases;  // conditions that this config meets
};

void fault(ConfigBuilder& builder, const JsonNode* node, std::string message, std::string help = {}) {
  report_message(builder.diagnostics, Code::InvalidConfigField,
                 node == nullptr ? Span{builder.config.source.id, 0, 1} : value_span(builder.config.source.id, *node),
                 std::move(message), std::move(help));
}

// True if a module of the family has this size. Only `out` is searched: each input size is the output size of another
// module.
bool needs(const ConfigFamily& family, ConfigSize size) {
  return std::ranges::any_of(family.blocks, [size](std::span<const ModuleRow> block) {
    return std::ranges::find(block, size, &ModuleRow::out) != block.end();
  });
}

void read_dense_layers(ConfigBuilder& builder) {
  builder.sizes.sparse_step = integer_field(builder.config, "decoder_sparse_step", 1, 1, builder.diagnostics);
  const JsonTree* tree = find_tree(builder.config, "mlp_only_layers");
  if (tree == nullptr || tree->nodes[0].kind == JsonKind::Null) return;
  const bool list = tree->nodes[0].kind == JsonKind::Array;
  for (size_t i = 1; list && i < tree->nodes.size(); ++i) {
    if (tree->nodes[i].kind != JsonKind::Integer)
      return fault(builder, &tree->nodes[i], "`mlp_only_layers` must contain only indices of layers");
    builder.sizes.dense_layers.push_back(tree->nodes[i].integer);
  }
  if (!list)
    fault(builder, &tree->nodes[0],
          fmt::format("`mlp_only_layers` is {}, not an array", json_kind_name(tree->nodes[0].kind)));
  std::ranges::sort(builder.sizes.dense_layers);
}

void read_sizes(ConfigBuilder& builder) {
  const ConfigFile& config = builder.config;
  Diagnostics& diagnostics = builder.diagnostics;
  ConfigSizes& sizes = builder.sizes;
  sizes.vocab = required_field(config, "vocab_size", 1, diagnostics);
  sizes.hidden = required_field(config, "hidden_size", 1, diagnostics);
  sizes.intermediate = required_field(config, "intermediate_size", 1, diagnostics);
  sizes.layers = required_field(config, "num_hidden_layers", 1, diagnostics);
  if (sizes.layers > kMaxLayers)
    fault(builder, find_field(config, "num_hidden_layers"),
          fmt::format("{} layers exceed the limit of {}", sizes.layers, kMaxLayers));
  if (sizes.hidden > 0) sizes.heads = read_heads(config, builder.family.kv_heads, builder.family.head_dim, diagnostics);
  if (needs(builder.family, ConfigSize::Experts)) {
    const auto& keys = builder.family.expert_count_keys;
    const auto there = std::ranges::find_if(
        keys, [&](std::string_view key) { return !key.empty() && find_field(config, key) != nullptr; });
    sizes.experts = required_field(config, there != keys.end() ? *there : "num_experts", 1, diagnostics);
    sizes.expert = required_field(config, builder.family.expert_size_key, 1, diagnostics);
  }
  if (needs(builder.family, ConfigSize::SharedIntermediate))
    sizes.shared = required_field(config, "shared_expert_intermediate_size", 1, diagnostics);
  if (builder.family.mixed_layers) read_dense_layers(builder);
}

void read_flags(ConfigBuilder& builder) {
  const ConfigFile& config = builder.config;
  builder.biases = {BiasCondition::Always};
  for (const BiasFlag& flag : bias_flags()) {
    const bool used = std::ranges::any_of(builder.family.blocks, [&](std::span<const ModuleRow> block) {
      return std::ranges::find(block, flag.when, &ModuleRow::bias) != block.end();
    });
    if (used && flag_field(config, flag.key, flag.otherwise, builder.diagnostics)) builder.biases.push_back(flag.when);
  }
  const std::string_view key = find_field(config, "dtype") != nullptr ? "dtype" : "torch_dtype";
  const std::string_view dtype = text_field(config, key, "float32", builder.diagnostics);
  builder.sizes.has_dtype = find_field(config, key) != nullptr;
  if (!find_dtype(dtype, builder.sizes.dtype) || !is_compute_dtype(builder.sizes.dtype))
    fault(builder, find_field(config, key), fmt::format("`{}` is `{}`, which is not a dtype of models", key, dtype),
          "write bfloat16, float16, float32 or float64");
  std::string_view act =
      text_field(config, builder.family.activation_key, builder.family.activation, builder.diagnostics);
  if (builder.family.gelu_is_tanh && act == "gelu") {
    report_message(
        builder.diagnostics, Code::ConfigFieldIgnored,
        value_span(config.source.id, *find_field(config, builder.family.activation_key)),
        fmt::format("`gelu` is read as `{}`, as transformers does in this family", builder.family.activation),
        "write the activation that is meant");
    act = builder.family.activation;
  }
  builder.sizes.activation = act;
  builder.activation = activation_class(act);
  if (!builder.activation.empty()) return;
  const std::string_view nearest = nearest_name(act, activation_names());
  fault(
      builder, find_field(config, builder.family.activation_key),
      fmt::format("activation `{}` is unknown or has parameters", act),
      nearest.empty() ? "write silu, gelu, gelu_pytorch_tanh, relu, ..." : fmt::format("did you mean `{}`?", nearest));
}

// ---- the graph ----

std::string_view type_name(ConfigBuilder& builder, std::string_view type) {
  if (type == "@") return builder.activation;
  if (!type.starts_with('$')) return type;
  const auto known = std::ranges::find_if(builder.graph.types, [&](std::string_view t) {
    return t.starts_with(builder.family.prefix) && t.substr(builder.family.prefix.size()) == type.substr(1);
  });
  return known != builder.graph.types.end()
             ? *known
             : intern_text(builder.graph, fmt::format("{}{}", builder.family.prefix, type.substr(1)));
}

// Returns the rows of a fused qkv projection, at most INT64_MAX: each size is at most 2^31, so a product of two fits in
// 63 bits, but the sum of three products needs 64. add_tensor then rejects the size (TP6010).
int64_t fused_rows(const ModuleAttributes& heads) {
  const uint64_t rows =
      static_cast<uint64_t>(heads.num_heads + 2 * heads.num_kv_heads) * static_cast<uint64_t>(heads.head_dim);
  return static_cast<int64_t>(std::min<uint64_t>(rows, std::numeric_limits<int64_t>::max()));
}

int64_t size_of(const ConfigSizes& sizes, ConfigSize size) {
  const ModuleAttributes& heads = sizes.heads;
  switch (size) {
    case ConfigSize::None:
      return 0;
    case ConfigSize::One:
      return 1;
    case ConfigSize::Hidden:
      return sizes.hidden;
    case ConfigSize::Intermediate:
      return sizes.intermediate;
    case ConfigSize::Query:
      return heads.num_heads * heads.head_dim;
    case ConfigSize::KeyValue:
      return heads.num_kv_heads * heads.head_dim;
    case ConfigSize::HeadDim:
      return heads.head_dim;
    case ConfigSize::FusedQkv:
      return fused_rows(heads);
    case ConfigSize::ThreeHidden:
      return 3 * sizes.hidden;
    case ConfigSize::GateUp:
      return 2 * sizes.intermediate;
    case ConfigSize::Experts:
      return sizes.experts;
    case ConfigSize::SharedIntermediate:
      return sizes.shared;
  }
  return 0;
}

// Adds a parameter. Rejects 2^63 elements or more, the limit of a model file: each size is at most 2^31, but not their
// product.
void add_tensor(ConfigBuilder& builder, std::string_view name, std::initializer_list<int64_t> shape,
                std::vector<int64_t> segments = {}, size_t dim = 0) {
  unsigned __int128 product = 1;
  for (const int64_t size : shape) {
    product *= static_cast<unsigned __int128>(size);
    if (product >> 63 == 0) continue;
    return fault(builder, nullptr,
                 fmt::format("`{}` of `{}` would have 2^63 elements or more", name, builder.graph.modules.back().path),
                 "reduce the sizes of the config");
  }
  Param& param = add_param(builder.graph, name, {shape.begin(), shape.size()}, builder.sizes.dtype);
  if (!segments.empty()) set_segments(builder.graph, param, dim, std::move(segments));
}

void add_row(ConfigBuilder& builder, std::string_view layer, const ModuleRow& row) {
  ModelGraph& graph = builder.graph;
  const ConfigSizes& sizes = builder.sizes;
  const ModuleId id =
      add_module(graph, intern_text(graph, fmt::format("{}.{}", layer, row.path)), type_name(builder, row.type));
  if (row.role == ModuleRole::Attention) return set_attributes(graph, graph.modules[id], sizes.heads);
  if (row.role == ModuleRole::AttentionHeadsOnly)
    return set_attributes(graph, graph.modules[id], {.num_heads = sizes.heads.num_heads});
  if (row.role == ModuleRole::Experts) {
    add_tensor(builder, "gate_up_proj", {sizes.experts, 2 * sizes.expert, sizes.hidden}, {sizes.expert, sizes.expert},
               1);
    add_tensor(builder, "down_proj", {sizes.experts, sizes.hidden, sizes.expert});
    return set_attributes(graph, graph.modules[id], {.num_experts = sizes.experts});
  }
  if (row.role == ModuleRole::Router) {  // computes a linear map, but is no Linear
    graph.modules[id].features = kNoFeatures;
    set_attributes(graph, graph.modules[id], {.num_experts = sizes.experts});
  }
  if (row.out == ConfigSize::None) return;
  const int64_t out = size_of(sizes, row.out);
  const std::vector<int64_t> segments = fused_segments(leaf_of(graph, row.path), out, sizes.heads);
  if (row.in == ConfigSize::None)
    add_tensor(builder, "weight", {out});
  else
    add_tensor(builder, "weight", {out, size_of(sizes, row.in)}, segments);
  if (std::ranges::find(builder.biases, row.bias) != builder.biases.end()) add_tensor(builder, "bias", {out}, segments);
}

// Returns the fraction of each head that rope rotates, as transformers' rope functions read it. A rope dictionary takes
// precedence over the top level (convert_rope_params_to_dict of modeling_rope_utils.py), so it is read last.
double read_rotary_part(ConfigBuilder& builder) {
  const ConfigFile& config = builder.config;
  const JsonNode* node = nullptr;
  std::string_view rope_type = "default";
  for (const std::string_view key : {"partial_rotary_factor", "rotary_pct"}) {
    if (const JsonNode* found = find_field(config, key)) node = found;
  }
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const JsonTree* tree = find_tree(config, key);
    if (tree == nullptr || tree->nodes[0].kind == JsonKind::Null) continue;
    if (tree->nodes[0].kind != JsonKind::Object)
      return fault(builder, &tree->nodes[0],
                   fmt::format("`{}` is {}, not an object", key, json_kind_name(tree->nodes[0].kind))),
             1;
    for (const std::string_view name : {"type", "rope_type"}) {
      const uint32_t at = find_json_field(*tree, 0, name);
      if (at != 0 && tree->nodes[at].kind == JsonKind::String) rope_type = tree->nodes[at].text;
    }
    if (const uint32_t at = find_json_field(*tree, 0, "partial_rotary_factor");
        at != 0 && tree->nodes[at].kind != JsonKind::Null)
      node = &tree->nodes[at];
  }
  if ((!builder.family.partial_rotary && rope_type == "default") || rope_type == "proportional") return 1;
  if (node == nullptr) return builder.family.rotary_part;
  double part = static_cast<double>(node->integer);
  if (node->kind == JsonKind::Number) std::from_chars(node->text.data(), node->text.data() + node->text.size(), part);
  const bool number = node->kind == JsonKind::Number || node->kind == JsonKind::Integer;
  if (number && part >= 0 && part <= 1) return part;
  fault(builder, node, "the rotated part of a head is not a number from 0 to 1");
  return 1;
}

void build_graph(ConfigBuilder& builder) {
  ModelGraph& graph = builder.graph;
  const ConfigFamily& family = builder.family;
  const ConfigSizes& sizes = builder.sizes;
  const auto below = [&](std::string_view name) { return intern_text(graph, fmt::format("{}.{}", family.base, name)); };
  add_module(graph, "", intern_text(graph, graph.name));
  add_module(graph, family.base, type_name(builder, "$Model"));
  const ModuleId embedding = add_module(graph, below(family.embedding), type_name(builder, family.embedding_type));
  add_tensor(builder, "weight", {sizes.vocab, sizes.hidden});
  if (family.scaled_embedding) add_param(graph, "embed_scale", {}, builder.sizes.dtype, true);
  if (!family.dropout.empty()) add_module(graph, below(family.dropout), "Dropout");
  add_module(graph, below("layers"), "ModuleList");
  for (int64_t i = 0; i < sizes.layers && !has_errors(builder.diagnostics); ++i) {
    const std::string_view layer = below(fmt::format("layers.{}", i));
    add_module(graph, layer, type_name(builder, family.layer_type));
    const LayerKind other = has_experts(sizes, i) ? LayerKind::Dense : LayerKind::Sparse;
    for (const std::span<const ModuleRow> block : family.blocks) {
      for (const ModuleRow& row : block) {
        if (row.part != other) add_row(builder, layer, row);
      }
    }
  }
  add_module(graph, below(family.norm), type_name(builder, family.norm_type));
  add_tensor(builder, "weight", {sizes.hidden});
  if (family.norm_bias == BiasCondition::Always) add_tensor(builder, "bias", {sizes.hidden});
  add_module(graph, below("rotary_emb"), type_name(builder, "$RotaryEmbedding"));
  builder.sizes.rotated = static_cast<int64_t>(static_cast<double>(sizes.heads.head_dim) * read_rotary_part(builder));
  // The length of torch.arange(0, rotated, 2).
  const int64_t frequencies[] = {(sizes.rotated + 1) / 2};
  const DType float32 = dtype_of("float32");
  for (const std::string_view name : {"inv_freq", "original_inv_freq"})
    add_param(graph, name, frequencies, float32, true);
  const ModuleId head = add_module(graph, "lm_head", "Linear");
  add_tensor(builder, "weight", {sizes.vocab, sizes.hidden});
  if (flag_field(builder.config, "tie_word_embeddings", family.tied, builder.diagnostics))
    graph.ties.push_back({.params = {graph.modules[embedding].first_param, graph.modules[head].first_param}});
  resolve_kinds(graph);
}

std::string family_names() {
  std::vector<std::string> names;
  for (const ConfigFamily& family : config_families()) names.emplace_back(family.model_type);
  return join(names, ", ");
}

// Returns the first class name of `architectures`; empty if there is none.
std::string_view architecture_of(const ConfigFile& config) {
  const JsonTree* tree = find_tree(config, "architectures");
  const bool named = tree != nullptr && tree->nodes[0].kind == JsonKind::Array && tree->nodes.size() > 1 &&
                     tree->nodes[1].kind == JsonKind::String;
  return named ? tree->nodes[1].text : std::string_view{};
}

// Returns the family whose causal language model is the class of the config; nullptr if there is none.
const ConfigFamily* family_of_architecture(const ConfigFile& config) {
  const std::string_view name = architecture_of(config);
  const auto found = std::ranges::find_if(config_families(), [&](const ConfigFamily& family) {
    return name == fmt::format("{}ForCausalLM", family.prefix);
  });
  return found == config_families().end() ? nullptr : &*found;
}

// Returns the command that exports any model of transformers from the same file.
std::string export_command(const ConfigFile& config) {
  return fmt::format("export the model: python -m tpplan.export --transformers {} -o model.json", config.source.name);
}

const ConfigFamily* read_family(const ConfigFile& config, Diagnostics& diagnostics) {
  if (find_field(config, "model_type") == nullptr) {
    report_message(diagnostics, Code::InvalidConfigField, {config.source.id, 0, 1}, "the config has no `model_type`",
                   "give the config.json of a model");
    return nullptr;
  }
  const JsonNode& node = *find_field(config, "model_type");
  const ConfigFamily* family = find_config_family(text_field(config, "model_type", "", diagnostics));
  if (family != nullptr || node.kind != JsonKind::String) return family;
  family = family_of_architecture(config);
  if (family == nullptr) {
    report_message(diagnostics, Code::UnknownModelFamily, value_span(config.source.id, node),
                   fmt::format("model_type `{}` is unknown", node.text),
                   fmt::format("use one of {}, or {}", family_names(), export_command(config)));
    return nullptr;
  }
  report_message(diagnostics, Code::ConfigFieldIgnored, value_span(config.source.id, node),
                 fmt::format("model_type `{}` is unknown: the config is read as `{}`, because the model class is "
                             "`{}ForCausalLM`",
                             node.text, family->model_type, family->prefix),
                 fmt::format("if the class differs from that of transformers, {}", export_command(config)));
  return family;
}

// Rejects a class other than the causal language model of the family.
bool check_architecture(ConfigBuilder& builder) {
  const JsonTree* tree = find_tree(builder.config, "architectures");
  if (tree == nullptr || tree->nodes[0].kind == JsonKind::Null) return true;
  if (architecture_of(builder.config).empty())
    return fault(builder, &tree->nodes[0], "`architectures` is not a list of class names"), false;
  if (tree->nodes[1].text == builder.graph.name) return true;
  report_message(
      builder.diagnostics, Code::UnknownModelFamily, value_span(builder.config.source.id, tree->nodes[1]),
      fmt::format("the model class is `{}`, but only `{}` is supported", tree->nodes[1].text, builder.graph.name),
      fmt::format("import the causal language model of the family, or {}", export_command(builder.config)));
  return false;
}

}  // namespace

// As Qwen2MoeDecoderLayer.__init__ of transformers. In a family without mixed layers the step is 1 and the list is
// empty, so every layer counts as sparse; all its rows are LayerKind::Any.
bool has_experts(const ConfigSizes& sizes, int64_t layer) {
  return (layer + 1) % sizes.sparse_step == 0 && !std::ranges::binary_search(sizes.dense_layers, layer);
}

bool build_config_model(const ConfigFile& config, ModelGraph& graph, ConfigSizes& sizes, Diagnostics& diagnostics) {
  const ConfigFamily* family = read_family(config, diagnostics);
  if (family == nullptr) return false;
  graph.name = fmt::format("{}ForCausalLM", family->prefix);
  graph.framework = Framework::Torch;
  ConfigBuilder builder{
      .config = config, .family = *family, .graph = graph, .diagnostics = diagnostics, .sizes = sizes};
  sizes.family = family->model_type;
  if (!check_architecture(builder)) return false;
  read_sizes(builder);
  read_flags(builder);
  for (const std::string_view key : kUnreadParts) {
    const JsonTree* tree = find_tree(config, key);
    if (tree != nullptr && tree->nodes[0].kind != JsonKind::Null)
      report_message(diagnostics, Code::ConfigFieldIgnored, key_span(config.source.id, tree->nodes[0]),
                     fmt::format("`{}` is ignored: the model describes the weights before quantization", key),
                     "import the checkpoint's tensors: tpplan import --from safetensors");
  }
  if (!has_errors(diagnostics)) build_graph(builder);
  return !has_errors(diagnostics);
}

}  // namespace tpplan
