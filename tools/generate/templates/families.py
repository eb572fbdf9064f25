"""The families of lib/hf_configs/config_families.cc: the values of their config fields in the traces."""

import math
import random

# Last part of the path of modules that apply an activation.
ACTIVATIONS = ("act_fn", "activation_fn", "act")

# Fields that no operation depends on. They differ in each trace, because a config may have any value.
HARMLESS = {
    "initializer_range": lambda r: r.choice((0.01, 0.02, 0.03)),
    "max_position_embeddings": lambda r: r.choice((512, 1024, 4096)),
    "pretraining_tp": lambda r: r.choice((1, 2)),
    "use_cache": lambda r: r.random() < 0.5,
    "bos_token_id": lambda r: r.randrange(1, 90),
    "eos_token_id": lambda r: r.randrange(1, 90),
    "rope_theta": lambda r: r.choice((1e4, 5e5)),
}
# Fields for training, for other heads or for files, and fields that are handled separately, such as those of rope.
UNREAD = (
    "transformers_version architectures dtype torch_dtype id2label label2id problem_type _name_or_path model_type router_aux_loss_coef "
    "classifier_dropout chunk_size_feed_forward original_max_position_embeddings rope_parameters rope_scaling is_encoder_decoder "
    "router_jitter_noise auto_map rotary_pct rotary_emb_base partial_rotary_factor use_sliding_window max_window_layers layer_types "
    "num_experts num_local_experts vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
    "num_key_value_heads head_dim hidden_act hidden_activation moe_intermediate_size shared_expert_intermediate_size "
    "decoder_sparse_step mlp_only_layers attention_bias mlp_bias qkv_bias use_bias tie_word_embeddings sliding_window"
).split()

# Fields without a default in the config class that change the operations.
ELSEWHERE = {
    "is_causal": True,
    "attn_implementation": "sdpa",
    "_attn_implementation": "sdpa",
    "experts_implementation": "grouped_mm",
    "_experts_implementation": "grouped_mm",
}

# Fractional fields with their possible values.
FRACTIONS = {
    "rms_norm_eps": (1e-6, 1e-5, 3e-5, 2e-6),
    "layer_norm_eps": (1e-6, 1e-5, 3e-5, 2e-6),
    "norm_epsilon": (1e-6, 1e-5, 3e-5, 2e-6),
    "attention_dropout": (0.11, 0.125, 0.25, 0.375),
    "hidden_dropout": (0.12, 0.13, 0.26, 0.38),
    "resid_pdrop": (0.14, 0.15, 0.27, 0.39),
    "embd_pdrop": (0.16, 0.17, 0.28, 0.36),
    "residual_dropout": (0.14, 0.15, 0.27, 0.39),
    "embedding_dropout": (0.16, 0.17, 0.28, 0.36),
    "embedding_multiplier": (1.5, 3.25, 12.0, 7.0),
    "logits_scaling": (2.5, 8.0, 16.0, 4.25),
    "residual_multiplier": (0.22, 0.24, 0.37, 0.19),
    "attention_multiplier": (0.0156, 0.03, 0.07, 0.09),
    "final_logit_softcapping": (30.0, 25.0, 22.0, 35.0),
    "attn_logit_softcapping": (50.0, 45.0, 42.0, 55.0),
}

# The lowest finite value of a dtype, with which masks are filled: torch.finfo(dtype).min.
LEAST = {"bfloat16": -3.3895313892515355e38, "float16": -65504.0, "float32": -3.4028234663852886e38}

# Features of a family:
# - `types`: each layer has full or sliding attention
# - `window`: all layers have full attention, or all have sliding attention
# - `mixed`: dense and sparse layers
# - `flags`: fields that change the graph
OWN = {
    "mistral": {"window": True},
    "mixtral": {"window": True, "experts": "num_local_experts"},
    "phi3": {"window": True, "rotary": True},
    "starcoder2": {"window": True},
    "qwen2": {"types": True},
    "qwen3": {"types": True},
    "gemma2": {
        "types": True,
        "flags": {"final_logit_softcapping?": (True, False), "attn_logit_softcapping?": (True, False)},
        "whole": ("query_pre_attn_scalar",),
    },
    "gpt_neox": {"rotary": True, "flags": {"use_parallel_residual": (True, False)}, "one_head_size": True},
    "qwen2_moe": {"types": True, "mixed": True, "experts": "num_experts", "flags": {"norm_topk_prob": (True, False)}},
    "qwen3_moe": {"window": True, "mixed": True, "experts": "num_experts", "flags": {"norm_topk_prob": (True, False)}},
}
FAMILIES = (
    "llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gpt_neox phi3 olmo2 starcoder2 granite".split()
)


def variants(family):
    """Returns the conditions under which a config selects each graph: a list of {condition: value}."""
    own, made = OWN.get(family, {}), [{}]

    def by(name, values):
        return [row | {name: value} for row in made for value in values]

    if not own.get("one_head_size"):
        made = by("grouped", (True, False))
    if own.get("window"):
        made = by("window", (True, False))
    if own.get("types"):
        made = by("types", ("full", "sliding", "both"))
    if own.get("mixed"):
        made = by("mixed", ("sparse", "dense", "both"))
    for name, values in own.get("flags", {}).items():
        made = by(name, values)
    return by("rope", tuple(rope_types(family)))


def rope_types(family):
    """Returns {kind: rope types that have the same graph}. Most types change only the frequencies, which are computed
    before the step, and the scale of the cosines. `dynamic` is one of them as long as no sequence is longer than the
    model's."""
    if family == "phi3":  # Phi3Config.convert_rope_params_to_dict treats su and yarn as longrope
        return {"static": ("default",), "longrope": ("longrope", "su", "yarn")}
    return {"static": ("default", "linear", "llama3", "yarn", "dynamic", "proportional"), "longrope": ("longrope",)}


def draw_rope(r, family, variant, config, rotated, defaults):
    """Returns (the rope dict of a config, fields), for rope types that can be traced on the meta device."""
    if variant["rope"] == "longrope":
        original, factor = r.choice((128, 256, 384)), r.choice((2.0, 3.0, 6.0))
        rope = {"rope_type": "longrope", "factor": factor, "original_max_position_embeddings": original}
        for name in ("short_factor", "long_factor"):
            rope[name] = [r.choice((1.0, 1.5, 2.25, 4.5)) for _ in range(rotated // 2)]
        fields = {
            "rope_theta": config["rope_theta"],
            "original_max_position_embeddings": original,
            "attention_scaling": math.sqrt(1 + math.log(factor) / math.log(original)),
        }
        if "original_max_position_embeddings" in defaults:  # this field takes precedence over the dict
            config["original_max_position_embeddings"] = rope.pop("original_max_position_embeddings")
        if "rotary_emb_base" in defaults or family == "gpt_neox":
            config["rotary_emb_base"] = config.pop("rope_theta")
        return rope, fields
    if family == "phi3":
        return None, {}
    rope = {
        "rope_type": r.choice(("default", "linear", "llama3", "yarn", "yarn")),
        "factor": r.choice((2.0, 4.0, 8.0)),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    }
    yarn = 0.1 * math.log(rope["factor"]) + 1.0
    return rope, {"attention_scaling": yarn if rope["rope_type"] == "yarn" else 1.0}


def kinds(variant):
    """Returns the kinds of layers of a variant."""
    types = {"full": ["full"], "sliding": ["sliding"], "both": ["full", "sliding"]}[variant.get("types", "full")]
    mixed = {"sparse": ["sparse"], "dense": ["dense"], "both": ["sparse", "dense"], None: [None]}[variant.get("mixed")]
    return [" ".join(filter(None, (t if "types" in variant else None, m))) for t in types for m in mixed]


def draw(family, variant, config_class, seed):
    """Returns (config, fields, kinds of its layers): a random config of this variant."""
    flags = {name: value for name, value in variant.items() if name != "rope"}
    r, own = random.Random(f"{family} {flags} {seed}"), OWN.get(family, {})
    defaults = config_class().to_dict()
    kv = r.choice((2, 3, 5, 7))
    heads = kv * r.choice((2, 3, 5)) if variant.get("grouped") else kv
    head_dim = 8 * r.choice((3, 5, 7, 11, 13))
    fields = {
        "vocab_size": r.choice((101, 131, 151, 173, 197)),
        "hidden_size": heads * head_dim if own.get("one_head_size") else 8 * heads * r.choice((2, 3, 5, 7)),
        "intermediate_size": 8 * r.choice((37, 41, 43, 47)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": head_dim,
        "pad_token_id": r.randrange(20, 99),
    }
    order = kinds(variant) * 2 if len(kinds(variant)) > 1 else kinds(variant) * 3
    config = {"model_type": family, "num_hidden_layers": len(order)} | fields
    if own.get("one_head_size"):
        del config["num_key_value_heads"], config["head_dim"]
    for name, values in FRACTIONS.items():
        if name in defaults:
            config[name] = fields[name] = None if variant.get(f"{name}?") is False else r.choice(values)
    for name in own.get("whole", ()):
        config[name] = fields[name] = r.choice((53, 59, 61, 67))
    if "experts" in own:
        config[own["experts"]] = fields["num_experts"] = r.choice((5, 7, 11))
        config["num_experts_per_tok"] = fields["num_experts_per_tok"] = r.choice((2, 3, 4))
        if "moe_intermediate_size" in defaults:
            config["moe_intermediate_size"] = fields["moe_intermediate_size"] = 8 * r.choice((3, 7, 11, 13))
        if "shared_expert_intermediate_size" in defaults:
            config["shared_expert_intermediate_size"] = fields["shared_expert_intermediate_size"] = r.choice(
                (71, 73, 79, 83)
            )
    if own.get("rotary"):
        part = r.choice((0.25, 0.5, 0.75, 1.0))
        config["rotary_pct" if family == "gpt_neox" else "partial_rotary_factor"] = part
        fields["rotary_dim"] = int(head_dim * part)
    if variant.get("window") or variant.get("types") in ("sliding", "both"):
        config["sliding_window"] = fields["sliding_window"] = r.choice((13, 29, 31, 43))
    elif "sliding_window" in defaults:
        config["sliding_window"] = None
    if "use_sliding_window" in defaults:
        config["use_sliding_window"] = variant.get("window", variant.get("types") != "full")
    if "types" in variant:
        config["layer_types"] = ["sliding_attention" if "sliding" in k else "full_attention" for k in order]
        if family == "gemma2" and variant["types"] == "full":
            config["sliding_window"] = 17
    if own.get("mixed"):
        config["decoder_sparse_step"] = 1
        config["mlp_only_layers"] = [i for i, k in enumerate(order) if k.endswith("dense")]
    for name, value in variant.items():
        if name in defaults:
            config[name] = value
    for name in ("attention_bias", "mlp_bias", "qkv_bias", "use_bias"):
        if name in defaults:
            config[name] = True
    config["tie_word_embeddings"] = False
    for name, choose in HARMLESS.items():
        if name in defaults or name == "rope_theta":
            config[name] = choose(r)
    if family == "phi3" and variant["rope"] == "longrope":  # longrope needs lists whose length fits this head size
        config["hidden_size"] = fields["hidden_size"] = heads * head_dim
    rotated = fields.get("rotary_dim", head_dim)
    config["rope_scaling"], scaled = draw_rope(r, family, variant, config, rotated, defaults)
    fields |= scaled
    config["dtype"] = fields["dtype"] = ("bfloat16", "float16", "float32")[seed % 3]
    fields["least"] = LEAST[config["dtype"]]
    fields |= {"batch": r.choice((2, 3, 4, 5)), "sequence": r.choice((37, 53, 67, 83))}
    return config, fields, order
