"""A correct model, plan and folder, in which slips_*.py make mistakes."""

import json

HIDDEN, INNER, VOCABULARY, LAYERS = 64, 192, 512, 4

PLAN = """\
format: tpplan.plan/1
dialect: glob
mesh: {dp: 2, tp: 4}
axis: tp
tp_plan:
  "model.embed_tokens": {style: rowwise, input_layouts: Replicate}
  "model.layers.*.self_attn.q_proj": colwise
  "model.layers.*.self_attn.k_proj": colwise
  "model.layers.*.self_attn.v_proj": colwise
  "model.layers.*.self_attn.o_proj": rowwise
  "model.layers.*.mlp.gate_proj": colwise
  "model.layers.*.mlp.up_proj": colwise
  "model.layers.*.mlp.down_proj": rowwise
  "lm_head": {style: colwise, output_layouts: Replicate}
data: {axes: [dp], dim: 0}
"""

KERAS_PLAN = """\
format: tpplan.plan/1
dialect: keras
mesh: {tp: 4}
tp_plan:
  ".*/token_embedding/embeddings": [tp, null]
  "decoder/layer_\\\\d+/attention/query/kernel": [null, tp]
  "decoder/layer_\\\\d+/attention/output/kernel": [tp, null]
  "decoder/layer_\\\\d+/feedforward/up/kernel": [null, tp]
  "decoder/layer_\\\\d+/feedforward/down/kernel": [tp, null]
"""


def linear(path, out, into):
    return {"path": path, "type": "Linear", "parameters": {"weight": {"shape": [out, into], "dtype": "bfloat16"}}}


def norm(path):
    return {"path": path, "type": "LlamaRMSNorm", "parameters": {"weight": {"shape": [HIDDEN], "dtype": "bfloat16"}}}


def llama():
    embedding = {"weight": {"shape": [VOCABULARY, HIDDEN], "dtype": "bfloat16"}}
    modules = [
        {"path": "", "type": "LlamaForCausalLM"},
        {"path": "model.embed_tokens", "type": "Embedding", "parameters": embedding},
    ]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        heads = {"num_heads": 8, "num_kv_heads": 4, "head_dim": 8}
        modules += [
            {"path": f"{at}.self_attn", "type": "LlamaAttention", "attributes": heads},
            linear(f"{at}.self_attn.q_proj", 64, HIDDEN),
            linear(f"{at}.self_attn.k_proj", 32, HIDDEN),
            linear(f"{at}.self_attn.v_proj", 32, HIDDEN),
            linear(f"{at}.self_attn.o_proj", HIDDEN, 64),
            linear(f"{at}.mlp.gate_proj", INNER, HIDDEN),
            linear(f"{at}.mlp.up_proj", INNER, HIDDEN),
            linear(f"{at}.mlp.down_proj", HIDDEN, INNER),
            norm(f"{at}.input_layernorm"),
            norm(f"{at}.post_attention_layernorm"),
        ]
    modules += [norm("model.norm"), linear("lm_head", VOCABULARY, HIDDEN)]
    return {"format": "tpplan.model/1", "name": "LlamaForCausalLM", "framework": "torch", "modules": modules}


def keras():
    def variable(path, kind, name, shape):
        return {"path": path, "type": kind, "parameters": {name: {"shape": shape, "dtype": "float32"}}}

    modules = [variable("decoder/token_embedding", "Embedding", "embeddings", [VOCABULARY, HIDDEN])]
    for layer in range(LAYERS):
        at = f"decoder/layer_{layer}"
        modules += [
            variable(f"{at}/attention/query", "Dense", "kernel", [HIDDEN, HIDDEN]),
            variable(f"{at}/attention/output", "Dense", "kernel", [HIDDEN, HIDDEN]),
            variable(f"{at}/feedforward/up", "Dense", "kernel", [HIDDEN, INNER]),
            variable(f"{at}/feedforward/down", "Dense", "kernel", [INNER, HIDDEN]),
        ]
    return {"format": "tpplan.model/1", "name": "decoder", "framework": "keras", "modules": modules}


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "vocab_size": 512,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def edited(text, edits):
    """Returns the text with some lines replaced, counted from 1; None removes a line."""
    lines = text.splitlines()
    for number, line in edits.items():
        lines[number - 1] = line
    return "\n".join(line for line in lines if line is not None) + "\n"


def write_project(folder):
    """Writes model.json, keras.json, plan.yaml, keras.yaml and config.json to a folder."""
    (folder / "model.json").write_text(json.dumps(llama(), indent=1), encoding="utf-8")
    (folder / "keras.json").write_text(json.dumps(keras(), indent=1), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2), encoding="utf-8")
    (folder / "plan.yaml").write_text(PLAN, encoding="utf-8")
    (folder / "keras.yaml").write_text(KERAS_PLAN, encoding="utf-8")
    return folder
