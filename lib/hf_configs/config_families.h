// The decoder families of Hugging Face whose config.json determines the model: one row for each family, modules in
// tables, as transformers 5.23 builds them (transformers/models/NAME/modeling_NAME.py).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sharding/dtype.h"

namespace tpplan {

// The factors of a dim's size.
enum class ConfigSize : uint8_t {
  None,
  One,
  Hidden,
  Intermediate,
  Query,
  KeyValue,
  HeadDim,
  FusedQkv,
  ThreeHidden,
  GateUp,
  Experts,
  SharedIntermediate
};

// When a module has a bias: a flag of the config, with its default in the row of kBiasFlags.
enum class BiasCondition : uint8_t { Never, Always, AttentionBias, NeoxAttentionBias, MlpBias, QkvBias, UseBias };

// What a module has besides its weight [out, in] (or [out]) and bias [out].
enum class ModuleRole : uint8_t { Plain, Attention, AttentionHeadsOnly, Router, Experts };

// The layers that have a module, in families that mix dense and sparse layers.
enum class LayerKind : uint8_t { Any, Dense, Sparse };

// One module of a layer. In `type` a leading `$` is replaced by the family's prefix, `@` by its activation class.
struct ModuleRow {
  std::string_view path;  // inside the layer
  std::string_view type;
  ConfigSize out = ConfigSize::None, in = ConfigSize::None;
  BiasCondition bias = BiasCondition::Never;
  ModuleRole role = ModuleRole::Plain;
  LayerKind part = LayerKind::Any;
};

struct ConfigFamily {
  std::string_view model_type;
  std::string_view prefix;     // LlamaForCausalLM is `Llama` and "ForCausalLM"
  std::string_view base;       // module of everything but the head
  std::string_view embedding;  // below the base
  std::string_view embedding_type;
  std::string_view dropout;  // behind the embedding; empty: none
  std::string_view layer_type;
  std::string_view norm;  // the last one, below the base
  std::string_view norm_type;
  BiasCondition norm_bias;
  std::string_view activation_key, activation;        // field, and its default
  bool gelu_is_tanh;                                  // an old name, which transformers corrects
  std::string_view expert_size_key;                   // of one expert's intermediate size; empty: dense
  std::array<std::string_view, 2> expert_count_keys;  // the first that a config has; an empty one is none
  int64_t kv_heads, head_dim;                         // defaults; 0: the number of heads, hidden / heads
  bool tied;                                          // default
  bool scaled_embedding;                              // has a buffer `embed_scale`
  bool partial_rotary;                                // rotates a part of each head, even without a rope type
  double rotary_part;                                 // default
  bool mixed_layers;                     // decoder_sparse_step and mlp_only_layers specify the sparse layers
  std::span<const ModuleRow> blocks[3];  // the modules of a layer, in order
};

[[nodiscard]] std::span<const ConfigFamily> config_families();

// nullptr when there is none.
[[nodiscard]] const ConfigFamily* find_config_family(std::string_view model_type);

struct BiasFlag {
  BiasCondition when;
  std::string_view key;
  bool otherwise;
};
[[nodiscard]] std::span<const BiasFlag> bias_flags();

// Returns the class of an activation by its name in a config (transformers' ACT2FN); empty if it is unknown or has
// parameters.
[[nodiscard]] std::string_view activation_class(std::string_view name);
[[nodiscard]] std::span<const std::string_view> activation_names();

}  // namespace tpplan
