"""Small models and plans whose matmuls and redistributions cover every kind that a manifest can have."""

import json


def llama(layers=2, hidden=24, ffn=40, vocab=50, tied=False):
    """A decoder in torch's layout, without head counts, so that any number of ranks can shard it."""
    modules = [
        {"path": "", "type": "LlamaForCausalLM"},
        {"path": "model.embed_tokens", "type": "Embedding", "parameters": {"weight": tensor(vocab, hidden)}},
    ]
    for i in range(layers):
        at = f"model.layers.{i}"
        modules += [{"path": at, "type": "LlamaDecoderLayer"}, {"path": f"{at}.self_attn", "type": "LlamaAttention"}]
        modules += [linear(f"{at}.self_attn.{name}_proj", hidden, hidden) for name in "qkvo"]
        modules += [
            {"path": f"{at}.mlp", "type": "LlamaMLP"},
            linear(f"{at}.mlp.gate_proj", ffn, hidden),
            linear(f"{at}.mlp.up_proj", ffn, hidden),
            linear(f"{at}.mlp.down_proj", hidden, ffn),
        ]
        modules += [norm(f"{at}.{name}_layernorm", hidden) for name in ("input", "post_attention")]
    modules += [norm("model.norm", hidden), linear("lm_head", vocab, hidden)]
    model = {"format": "tpplan.model/1", "name": "SmallLlama", "framework": "torch", "modules": modules}
    return model | ({"tied": [["lm_head.weight", "model.embed_tokens.weight"]]} if tied else {})


def tensor(*shape, dtype="float32"):
    return {"shape": list(shape), "dtype": dtype}


def linear(path, out, into, dtype="float32"):
    return {"path": path, "type": "Linear", "parameters": {"weight": tensor(out, into, dtype=dtype)}}


def norm(path, size):
    return {"path": path, "type": "RMSNorm", "parameters": {"weight": tensor(size)}}


def plan(mesh, rules, **more):
    return json.dumps({"format": "tpplan.plan/1", "mesh": mesh, "tp_plan": rules} | more)


TENSOR = {
    "model.embed_tokens": {"style": "rowwise", "input_layouts": "Replicate"},
    "lm_head": {"style": "colwise", "output_layouts": "Replicate"},
    **{f"*.{name}_proj": "colwise" for name in ("q", "k", "v", "gate", "up")},
    "*.o_proj": "rowwise",
    "*.down_proj": "rowwise",
}

SEQUENCE = {
    "model.embed_tokens": {
        "style": "rowwise",
        "input_layouts": "Replicate",
        "output_layouts": "Shard(1)",
        "use_local_output": False,
    },
    "*norm": "sequence_parallel",
    "*.self_attn": {
        "style": "prepare_module_input",
        "input_kwarg_layouts": {"hidden_states": "Shard(1)"},
        "desired_input_kwarg_layouts": {"hidden_states": "Replicate"},
    },
    "*.mlp": {"style": "prepare_module_input", "input_layouts": "Shard(1)", "desired_input_layouts": "Replicate"},
    **{f"*.{name}_proj": "colwise" for name in ("q", "k", "v", "gate", "up")},
    **{
        f"*.{name}_proj": {"style": "rowwise", "output_layouts": "Shard(1)", "use_local_output": False}
        for name in ("o", "down")
    },
    "lm_head": {"style": "colwise", "input_layouts": "Shard(1)", "output_layouts": "Replicate"},
}

DATA = {"axes": ["fsdp"], "dim": 0}
PLANS = {
    "tp 2": plan({"tp": 2}, TENSOR),
    "tp 3, uneven": plan({"tp": 3}, TENSOR, uneven="torch"),
    "tp 8, some pieces empty": plan({"tp": 8}, TENSOR, uneven="torch"),
    "sequence parallel": plan({"tp": 4}, SEQUENCE, uneven="torch"),
    "data x tp": plan({"dp": 2, "tp": 2}, TENSOR, data={"axes": ["dp"], "dim": 0}),
    "fsdp dim0 x tp with sequence parallel": plan(
        {"fsdp": 2, "tp": 2}, SEQUENCE, uneven="torch", data=DATA, fsdp={"axis": "fsdp", "policy": "dim0"}
    ),
    "fsdp on the largest dim x tp": plan(
        {"fsdp": 2, "tp": 2}, TENSOR, uneven="torch", data=DATA, fsdp={"axis": "fsdp", "min_weight_size": 0}
    ),
    "fsdp and no data": plan({"fsdp": 2, "tp": 2}, TENSOR, fsdp={"axis": "fsdp", "policy": "dim0"}),
    "fsdp alone": plan(
        {"fsdp": 3},
        {"lm_head": "replicate"},
        axis="fsdp",
        uneven="torch",
        data=DATA,
        fsdp={"axis": "fsdp", "policy": "dim0"},
    ),
}
