#include "hf_configs/config_families.h"

#include <algorithm>
#include <vector>

namespace tpplan {
namespace {

using enum ConfigSize;
using enum BiasCondition;

// The rows of these tables are in the order in which __init__ of the family's classes creates the modules, which is the
// order of named_parameters() and of every file made of the model.
template <BiasCondition qkv, BiasCondition out>
constexpr ModuleRow kSeparateQkv[] = {
    {"self_attn", "$Attention", None, None, Never, ModuleRole::Attention},
    {"self_attn.q_proj", "Linear", Query, Hidden, qkv},
    {"self_attn.k_proj", "Linear", KeyValue, Hidden, qkv},
    {"self_attn.v_proj", "Linear", KeyValue, Hidden, qkv},
    {"self_attn.o_proj", "Linear", Hidden, Query, out},
};

// With norms of queries and keys, over each head or over all heads.
constexpr ModuleRow kHeadNormQkv[] = {
    {"self_attn", "$Attention", None, None, Never, ModuleRole::Attention},
    {"self_attn.q_proj", "Linear", Query, Hidden, AttentionBias},
    {"self_attn.k_proj", "Linear", KeyValue, Hidden, AttentionBias},
    {"self_attn.v_proj", "Linear", KeyValue, Hidden, AttentionBias},
    {"self_attn.o_proj", "Linear", Hidden, Query, AttentionBias},
    {"self_attn.q_norm", "$RMSNorm", HeadDim},
    {"self_attn.k_norm", "$RMSNorm", HeadDim},
};
constexpr ModuleRow kFullNormQkv[] = {
    {"self_attn", "$Attention", None, None, Never, ModuleRole::Attention},
    {"self_attn.q_proj", "Linear", Query, Hidden, AttentionBias},
    {"self_attn.k_proj", "Linear", KeyValue, Hidden, AttentionBias},
    {"self_attn.v_proj", "Linear", KeyValue, Hidden, AttentionBias},
    {"self_attn.o_proj", "Linear", Hidden, Query, AttentionBias},
    {"self_attn.q_norm", "$RMSNorm", Query},
    {"self_attn.k_norm", "$RMSNorm", KeyValue},
};
constexpr ModuleRow kPhi3Attention[] = {
    {"self_attn", "$Attention", None, None, Never, ModuleRole::Attention},
    {"self_attn.o_proj", "Linear", Hidden, Query},
    {"self_attn.qkv_proj", "Linear", FusedQkv, Hidden},
};

template <BiasCondition bias>
constexpr ModuleRow kGatedMlp[] = {
    {"mlp", "$MLP"},
    {"mlp.gate_proj", "Linear", Intermediate, Hidden, bias},
    {"mlp.up_proj", "Linear", Intermediate, Hidden, bias},
    {"mlp.down_proj", "Linear", Hidden, Intermediate, bias},
    {"mlp.act_fn", "@"},
};
constexpr ModuleRow kPhi3Mlp[] = {
    {"mlp", "$MLP"},
    {"mlp.gate_up_proj", "Linear", GateUp, Hidden},
    {"mlp.down_proj", "Linear", Hidden, Intermediate},
    {"mlp.activation_fn", "@"},
};
constexpr ModuleRow kStarcoder2Mlp[] = {
    {"mlp", "$MLP"},
    {"mlp.c_fc", "Linear", Intermediate, Hidden, UseBias},
    {"mlp.c_proj", "Linear", Hidden, Intermediate, UseBias},
    {"mlp.act", "@"},
};
constexpr ModuleRow kMixtralMlp[] = {
    {"mlp", "$SparseMoeBlock"},
    {"mlp.gate", "$TopKRouter", Experts, Hidden, Never, ModuleRole::Router},
    {"mlp.experts", "$Experts", None, None, Never, ModuleRole::Experts},
    {"mlp.experts.act_fn", "@"},
};
// Both forms of a layer are in one list: a layer uses the rows of its LayerKind.
constexpr ModuleRow kQwen2MoeMlp[] = {
    {"mlp", "$SparseMoeBlock", None, None, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.gate", "$TopKRouter", Experts, Hidden, Never, ModuleRole::Router, LayerKind::Sparse},
    {"mlp.experts", "$Experts", None, None, Never, ModuleRole::Experts, LayerKind::Sparse},
    {"mlp.experts.act_fn", "@", None, None, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.shared_expert", "$MLP", None, None, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.shared_expert.gate_proj", "Linear", SharedIntermediate, Hidden, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.shared_expert.up_proj", "Linear", SharedIntermediate, Hidden, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.shared_expert.down_proj", "Linear", Hidden, SharedIntermediate, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.shared_expert.act_fn", "@", None, None, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.shared_expert_gate", "Linear", One, Hidden, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp", "$MLP", None, None, Never, ModuleRole::Plain, LayerKind::Dense},
    {"mlp.gate_proj", "Linear", Intermediate, Hidden, Never, ModuleRole::Plain, LayerKind::Dense},
    {"mlp.up_proj", "Linear", Intermediate, Hidden, Never, ModuleRole::Plain, LayerKind::Dense},
    {"mlp.down_proj", "Linear", Hidden, Intermediate, Never, ModuleRole::Plain, LayerKind::Dense},
    {"mlp.act_fn", "@", None, None, Never, ModuleRole::Plain, LayerKind::Dense},
};
constexpr ModuleRow kQwen3MoeMlp[] = {
    {"mlp", "$SparseMoeBlock", None, None, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.experts", "$Experts", None, None, Never, ModuleRole::Experts, LayerKind::Sparse},
    {"mlp.experts.act_fn", "@", None, None, Never, ModuleRole::Plain, LayerKind::Sparse},
    {"mlp.gate", "$TopKRouter", Experts, Hidden, Never, ModuleRole::Router, LayerKind::Sparse},
    {"mlp", "$MLP", None, None, Never, ModuleRole::Plain, LayerKind::Dense},
    {"mlp.gate_proj", "Linear", Intermediate, Hidden, Never, ModuleRole::Plain, LayerKind::Dense},
    {"mlp.up_proj", "Linear", Intermediate, Hidden, Never, ModuleRole::Plain, LayerKind::Dense},
    {"mlp.down_proj", "Linear", Hidden, Intermediate, Never, ModuleRole::Plain, LayerKind::Dense},
    {"mlp.act_fn", "@", None, None, Never, ModuleRole::Plain, LayerKind::Dense},
};

constexpr ModuleRow kTwoNorms[] = {
    {"input_layernorm", "$RMSNorm", Hidden},
    {"post_attention_layernorm", "$RMSNorm", Hidden},
};
constexpr ModuleRow kTwoLayerNorms[] = {
    {"input_layernorm", "LayerNorm", Hidden, None, Always},
    {"post_attention_layernorm", "LayerNorm", Hidden, None, Always},
};
constexpr ModuleRow kFourNorms[] = {
    {"input_layernorm", "$RMSNorm", Hidden},
    {"post_attention_layernorm", "$RMSNorm", Hidden},
    {"pre_feedforward_layernorm", "$RMSNorm", Hidden},
    {"post_feedforward_layernorm", "$RMSNorm", Hidden},
};
constexpr ModuleRow kNormsAfter[] = {
    {"post_attention_layernorm", "$RMSNorm", Hidden},
    {"post_feedforward_layernorm", "$RMSNorm", Hidden},
};
constexpr ModuleRow kPhi3Tail[] = {
    {"input_layernorm", "$RMSNorm", Hidden},
    {"post_attention_layernorm", "$RMSNorm", Hidden},
    {"resid_attn_dropout", "Dropout"},
    {"resid_mlp_dropout", "Dropout"},
};

constexpr ModuleRow kNeoxHead[] = {
    {"input_layernorm", "LayerNorm", Hidden, None, Always},
    {"post_attention_layernorm", "LayerNorm", Hidden, None, Always},
    {"post_attention_dropout", "Dropout"},
    {"post_mlp_dropout", "Dropout"},
};
constexpr ModuleRow kNeoxAttention[] = {
    {"attention", "$Attention", None, None, Never, ModuleRole::AttentionHeadsOnly},
    {"attention.query_key_value", "Linear", ThreeHidden, Hidden, NeoxAttentionBias},
    {"attention.dense", "Linear", Hidden, Hidden, NeoxAttentionBias},
};
constexpr ModuleRow kNeoxMlp[] = {
    {"mlp", "$MLP"},
    {"mlp.dense_h_to_4h", "Linear", Intermediate, Hidden, Always},
    {"mlp.dense_4h_to_h", "Linear", Hidden, Intermediate, Always},
    {"mlp.act", "@"},
};

// Most families: model.embed_tokens, model.layers, model.norm.
constexpr ConfigFamily usual(std::string_view model_type, std::string_view prefix, int64_t kv_heads, int64_t head_dim,
                             std::span<const ModuleRow> attention, std::span<const ModuleRow> mlp,
                             std::span<const ModuleRow> norms) {
  return {.model_type = model_type,
          .prefix = prefix,
          .base = "model",
          .embedding = "embed_tokens",
          .embedding_type = "Embedding",
          .dropout = "",
          .layer_type = "$DecoderLayer",
          .norm = "norm",
          .norm_type = "$RMSNorm",
          .norm_bias = Never,
          .activation_key = "hidden_act",
          .activation = "silu",
          .gelu_is_tanh = false,
          .expert_size_key = "",
          .expert_count_keys = {},
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .tied = false,
          .scaled_embedding = false,
          .partial_rotary = false,
          .rotary_part = 1,
          .mixed_layers = false,
          .blocks = {attention, mlp, norms}};
}

// GemmaConfig.__post_init__ replaces `gelu` in hidden_act by gelu_pytorch_tanh, which old files meant
// (configuration_gemma.py). Gemma 2 uses hidden_activation unchanged.
constexpr ConfigFamily gemma(std::string_view model_type, std::string_view prefix, int64_t kv_heads,
                             std::string_view activation_key, std::span<const ModuleRow> norms) {
  ConfigFamily family =
      usual(model_type, prefix, kv_heads, 256, kSeparateQkv<AttentionBias, AttentionBias>, kGatedMlp<Never>, norms);
  family.embedding_type = "$TextScaledWordEmbedding";
  family.scaled_embedding = true;
  family.tied = true;
  family.activation_key = activation_key;
  family.gelu_is_tanh = activation_key == "hidden_act";  // gemma, not gemma2
  family.activation = "gelu_pytorch_tanh";
  return family;
}

constexpr ConfigFamily experts(ConfigFamily family, std::string_view expert_size_key,
                               std::array<std::string_view, 2> expert_count_keys, bool mixed_layers) {
  family.expert_size_key = expert_size_key;
  family.expert_count_keys = expert_count_keys;
  family.mixed_layers = mixed_layers;
  return family;
}

// GPTNeoXLayer creates its norms and dropouts before the attention, so the three blocks are in that order.
constexpr ConfigFamily gpt_neox() {
  ConfigFamily family = usual("gpt_neox", "GPTNeoX", 0, 0, kNeoxHead, kNeoxAttention, kNeoxMlp);
  family.base = "gpt_neox";
  family.embedding = "embed_in";
  family.dropout = "emb_dropout";
  family.layer_type = "$Layer";
  family.norm = "final_layer_norm";
  family.norm_type = "LayerNorm";
  family.norm_bias = Always;
  family.activation = "gelu";
  family.partial_rotary = true;
  family.rotary_part = 0.25;
  return family;
}

constexpr ConfigFamily phi3() {
  ConfigFamily family = usual("phi3", "Phi3", 0, 0, kPhi3Attention, kPhi3Mlp, kPhi3Tail);
  family.partial_rotary = true;
  return family;
}

constexpr ConfigFamily starcoder2() {
  ConfigFamily family =
      usual("starcoder2", "Starcoder2", 2, 0, kSeparateQkv<UseBias, UseBias>, kStarcoder2Mlp, kTwoLayerNorms);
  family.norm_type = "LayerNorm";
  family.norm_bias = Always;
  family.activation = "gelu_pytorch_tanh";
  family.tied = true;
  return family;
}

// The numbers of key-value heads and the sizes of heads are the defaults of each family's config class
// (models/NAME/configuration_NAME.py).
constexpr ConfigFamily kFamilies[] = {
    usual("llama", "Llama", 0, 0, kSeparateQkv<AttentionBias, AttentionBias>, kGatedMlp<MlpBias>, kTwoNorms),
    usual("mistral", "Mistral", 8, 0, kSeparateQkv<Never, Never>, kGatedMlp<Never>, kTwoNorms),
    experts(usual("mixtral", "Mixtral", 8, 0, kSeparateQkv<Never, Never>, kMixtralMlp, kTwoNorms), "intermediate_size",
            {"num_experts", "num_local_experts"}, false),
    usual("qwen2", "Qwen2", 32, 0, kSeparateQkv<Always, Never>, kGatedMlp<Never>, kTwoNorms),
    experts(usual("qwen2_moe", "Qwen2Moe", 16, 0, kSeparateQkv<QkvBias, Never>, kQwen2MoeMlp, kTwoNorms),
            "moe_intermediate_size", {"num_experts"}, true),
    usual("qwen3", "Qwen3", 32, 128, kHeadNormQkv, kGatedMlp<Never>, kTwoNorms),
    experts(usual("qwen3_moe", "Qwen3Moe", 4, 0, kHeadNormQkv, kQwen3MoeMlp, kTwoNorms), "moe_intermediate_size",
            {"num_local_experts", "num_experts"}, true),
    gemma("gemma", "Gemma", 16, "hidden_act", kTwoNorms),
    gemma("gemma2", "Gemma2", 4, "hidden_activation", kFourNorms),
    gpt_neox(),
    phi3(),
    usual("olmo2", "Olmo2", 0, 0, kFullNormQkv, kGatedMlp<Never>, kNormsAfter),
    starcoder2(),
    usual("granite", "Granite", 0, 0, kSeparateQkv<AttentionBias, AttentionBias>, kGatedMlp<MlpBias>, kTwoNorms),
};

// A row is a key with a default, because transformers' classes have different defaults for one key.
constexpr BiasFlag kBiasFlags[] = {
    {AttentionBias, "attention_bias", false},
    {NeoxAttentionBias, "attention_bias", true},
    {MlpBias, "mlp_bias", false},
    {QkvBias, "qkv_bias", true},
    {UseBias, "use_bias", true},
};

struct Activation {
  std::string_view name, type;
};

// transformers.activations.ACT2CLS, but for prelu and xielu, which own parameters.
constexpr Activation kActivations[] = {
    {"silu", "SiLUActivation"},
    {"swish", "SiLU"},
    {"gelu", "GELUActivation"},
    {"gelu_10", "ClippedGELUActivation"},
    {"gelu_fast", "FastGELUActivation"},
    {"gelu_new", "NewGELUActivation"},
    {"gelu_python", "GELUActivation"},
    {"gelu_pytorch_tanh", "GELUTanh"},
    {"gelu_python_tanh", "GELUTanh"},
    {"gelu_accurate", "AccurateGELUActivation"},
    {"quick_gelu", "QuickGELUActivation"},
    {"relu", "ReLU"},
    {"relu2", "ReLUSquaredActivation"},
    {"relu6", "ReLU6"},
    {"leaky_relu", "LeakyReLU"},
    {"hardswish", "Hardswish"},
    {"laplace", "LaplaceActivation"},
    {"linear", "LinearActivation"},
    {"mish", "MishActivation"},
    {"sigmoid", "Sigmoid"},
    {"sqrtsoftplus", "SqrtSoftplusActivation"},
    {"tanh", "Tanh"},
};

}  // namespace

std::span<const ConfigFamily> config_families() { return kFamilies; }

const ConfigFamily* find_config_family(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &ConfigFamily::model_type);
  return found == std::end(kFamilies) ? nullptr : found;
}

std::span<const BiasFlag> bias_flags() { return kBiasFlags; }

std::string_view activation_class(std::string_view name) {
  const auto found = std::ranges::find(kActivations, name, &Activation::name);
  return found == std::end(kActivations) ? std::string_view{} : found->type;
}

std::span<const std::string_view> activation_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const Activation& row : kActivations) all.push_back(row.name);
    return all;
  }();
  return names;
}

}  // namespace tpplan
