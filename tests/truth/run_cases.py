"""The cases of record_runs.py: correct plans, and the same plans with one change. Sampled with a fixed seed."""

import copy
import math
import random

SEED = 12

# ---- plans for tpplan.torch: models of tests/python/models.py, plans in the glob dialect ----

LLAMA = {"vocabulary": 24, "size": 48, "heads": 12, "inner": 24, "layers": 2}
ENCODER = {"vocabulary": 24, "size": 48, "heads": 12, "inner": 24, "layers": 2, "length": 12}
SPLIT_QKV = {f"layers.*.self_attn.{n}_proj": "colwise" for n in "qkv"} | {"layers.*.self_attn.o_proj": "rowwise"}
FUSED_QKV = {"layers.*.self_attn.qkv_proj": "colwise", "layers.*.self_attn.o_proj": "rowwise"}
GATED = {"layers.*.mlp.gate_proj": "colwise", "layers.*.mlp.up_proj": "colwise", "layers.*.mlp.down_proj": "rowwise"}
ENDS = {"embed": "embedding_rowwise", "head": "colwise_gather_output"}
SCATTERED = {"style": "rowwise", "output_layouts": "Shard(1)", "use_local_output": False}
WHOLE_INPUT = {"style": "prepare_module_input", "input_layouts": "Shard(1)", "desired_input_layouts": "Replicate"}
SEQUENCE = SPLIT_QKV | GATED | {
    "embed": {"style": "rowwise", "input_layouts": "Replicate", "output_layouts": "Shard(1)", "use_local_output": False},
    "norm": "sequence_parallel",
    "head": {"style": "colwise", "input_layouts": "Shard(1)", "output_layouts": "Replicate"},
    "layers.*.input_norm": "sequence_parallel", "layers.*.post_norm": "sequence_parallel",
    "layers.*.self_attn": WHOLE_INPUT, "layers.*.mlp": WHOLE_INPUT,
    "layers.*.self_attn.o_proj": SCATTERED, "layers.*.mlp.down_proj": SCATTERED,
}  # fmt: skip
BLOCKS = {"blocks.*.out": "rowwise", "blocks.*.up": "colwise", "blocks.*.down": "rowwise"}
MIXTURE = ENDS | SPLIT_QKV | {
    "layers.*.mlp.experts.gate_up_proj": "packed_colwise", "layers.*.mlp.experts.down_proj": "rowwise",
    "layers.*.mlp.experts": "moe_tp_experts",
}  # fmt: skip

# Model, arguments, plan, number of changed plans.
OWN = [
    ("Llama", LLAMA | {"kv_heads": 12}, ENDS | SPLIT_QKV | GATED, 60),
    ("Llama", LLAMA | {"kv_heads": 4, "bias": True}, ENDS | SPLIT_QKV | GATED, 30),
    ("Llama", LLAMA | {"kv_heads": 12, "tied": True}, ENDS | SPLIT_QKV | GATED, 20),
    ("Llama", LLAMA | {"kv_heads": 12, "fused": True}, ENDS | FUSED_QKV | GATED, 20),
    ("Llama", LLAMA | {"kv_heads": 12}, SEQUENCE, 50),
    ("Encoder", ENCODER, {f"blocks.*.{n}": "colwise" for n in ("query", "key", "value")} | BLOCKS, 30),
    ("Encoder", ENCODER | {"fused": True}, {"blocks.*.qkv": "colwise"} | BLOCKS, 20),
    ("Mixture", LLAMA | {"kv_heads": 12, "experts": 4}, MIXTURE, 40),
]
OWN_STYLES = ("colwise", "rowwise", "colwise_gather_output", "rowwise_split_input", "replicate", "embedding_rowwise", "embedding_colwise",
              "packed_colwise", "all_reduce", "sequence_parallel", "replicated_with_grad_allreduce", "local_params",
              "moe_tp_experts")  # fmt: skip
OWN_ADDED = (
    "norm",
    "layers.*.input_norm",
    "layers.*.self_attn",
    "layers.*.mlp",
    "layers.*",
    "blocks.*.norm1",
    "blocks.*",
    "layers.*.mlp.router",
)
OPTIONS = {
    "use_local_output": [True, False],
    "output_layouts": ["Shard(1)", "Replicate", "Partial", "Shard(-1)"],
    "input_layouts": ["Shard(1)", "Replicate", "Shard(-1)"],
}


def over(axis, plan):
    """Returns the same plan with its styles over another axis."""
    return {key: ({"style": rule} if isinstance(rule, str) else rule) | {"axis": axis} for key, rule in plan.items()}


DTENSOR_QKV = {f"layers.*.self_attn.{n}_proj": {"style": "colwise", "use_local_output": False} for n in "qkv"}
CUT_BY_SPEC = {"layers.*.mlp.gate_proj.weight": ["tp", None], "layers.*.mlp.down_proj.weight": [None, "tp"], "embed.weight": ["tp", None],
               "layers.*.input_norm.weight": ["tp"], "layers.*.self_attn.q_proj.weight": ["tp", None]}  # fmt: skip
GIVEN_BY_NAME = {
    "style": "prepare_module_input",
    "input_layouts": [None, "Replicate"],
    "desired_input_layouts": [None, "Shard(0)"],
    "use_local_output": True,
}
ON_TWO = over("a", ENDS | SPLIT_QKV) | over("b", GATED)
TWO, DATA = {"mesh": {"a": 2, "b": 2}}, {"mesh": {"dp": 2, "tp": 2}, "data": ["dp"]}

# Plans of other shapes: model, arguments, plan, further fields of the case, sizes of tp, number of changed plans.
OWN_MORE = [
    ("Llama", LLAMA | {"kv_heads": 12}, ENDS | SPLIT_QKV | GATED, DATA, [2], 6),
    ("Llama", LLAMA | {"kv_heads": 12}, SEQUENCE, DATA, [2], 4),
    ("Llama", LLAMA | {"kv_heads": 12}, ON_TWO, TWO, [2], 14),
    ("Llama", LLAMA | {"kv_heads": 12}, ON_TWO | over("b", {"layers.*.self_attn.k_proj": "colwise"}), TWO, [2], 0),
    ("Llama", LLAMA | {"kv_heads": 12}, ON_TWO | over("a", {"layers.*.mlp.up_proj": "colwise"}), TWO, [2], 0),
    ("Llama", LLAMA | {"kv_heads": 12},
     {"embed.weight": [["a", "b"], None], "head.weight": [["a", "b"], None], "layers.*.mlp.gate_proj.weight": ["b", "a"]},
     TWO, [2], 0),
    ("Llama", LLAMA | {"kv_heads": 12},
     {"layers.*.mlp.down_proj.weight": ["a", "b"], "layers.*.input_norm.weight": [["b", "a"]]}, TWO, [2], 0),
    ("Encoder", ENCODER,
     over("b", {f"blocks.*.{n}": "colwise" for n in ("query", "key", "value")} | BLOCKS) | {"words.weight": ["a", None]},
     TWO, [2], 6),
    ("Llama", LLAMA | {"kv_heads": 12}, CUT_BY_SPEC, {}, [2, 3, 4], 0),
    ("Llama", LLAMA | {"kv_heads": 12, "bias": True},
     {"layers.*.mlp.down_proj.weight": [None, "tp"], "layers.*.mlp.down_proj.bias": ["tp"]}, {}, [2], 0),
    ("Llama", LLAMA | {"kv_heads": 12}, ENDS | DTENSOR_QKV | GATED, {}, [2], 0),
    ("Llama", LLAMA | {"kv_heads": 3}, ENDS | SPLIT_QKV | GATED, {}, [2, 3], 0),
    ("Llama", LLAMA | {"kv_heads": 12},
     ENDS | SPLIT_QKV | GATED | {"layers.*.mlp": {"style": "prepare_module_input", "input_layouts": "Replicate",
                                                  "desired_input_layouts": "Replicate"}}, {}, [2], 4),
    ("Llama", LLAMA | {"kv_heads": 12},
     SPLIT_QKV | GATED | {"layers.*.mlp": {"style": "prepare_module_output", "output_layouts": "Replicate",
                                           "desired_output_layouts": "Shard(1)"}}, {}, [2], 2),
    ("Llama", LLAMA | {"kv_heads": 12, "inner": 23}, ENDS | SPLIT_QKV | GATED, {}, [2, 4], 4),
    ("Llama", LLAMA | {"kv_heads": 12, "tied": True}, {"embed": "embedding_colwise"} | SPLIT_QKV | GATED, {}, [2, 3], 6),
    ("Llama", LLAMA | {"kv_heads": 12}, ENDS | SPLIT_QKV | GATED | {"layers.*.self_attn": GIVEN_BY_NAME}, {}, [2], 0),
    ("Llama", LLAMA | {"kv_heads": 12},
     ENDS | SPLIT_QKV | GATED | {"layers.*.self_attn": GIVEN_BY_NAME | {"desired_input_layouts": [None, "Replicate"]}},
     {}, [2], 0),
    ("Encoder", ENCODER, {"positions": [None, "tp"], "words": "embedding_rowwise"} | BLOCKS, {}, [2], 4),
    ("Mixture", LLAMA | {"kv_heads": 12, "experts": 4}, MIXTURE, {}, [2, 4], 14),
]  # fmt: skip


def own_more_cases():
    found = []
    for name, kwargs, plan, more, sizes, count in OWN_MORE:
        for tp in sizes:
            found.append(case(name, kwargs, tp, plan, "right", "the plan as it is meant") | more)
        chosen = random.Random(f"{SEED} more {name} {kwargs} {len(plan)}")
        possible = list(mutations(plan, OWN_STYLES, OWN_ADDED, OPTIONS))
        for kind, text, changed in chosen.sample(possible, min(count, len(possible))):
            axis = next((rule["axis"] for rule in plan.values() if isinstance(rule, dict) and "axis" in rule), None)
            changed = (
                changed
                if axis is None
                else {
                    k: r if isinstance(r, list) or r == plan.get(k) else over(axis, {k: r})[k]
                    for k, r in changed.items()
                }
            )
            found.append(case(name, kwargs, chosen.choice(sizes), changed, kind, text) | more)
    # Another sample of the cases of own_cases.
    for name, kwargs, plan, count in OWN:
        chosen = random.Random(f"held {name} {kwargs} {len(plan)}")
        possible = list(mutations(plan, OWN_STYLES, OWN_ADDED, OPTIONS))
        for kind, text, changed in chosen.sample(possible, min(count // 2, len(possible))):
            found.append(case(name, kwargs, chosen.choice([2, 3, 4]), changed, kind, text))
    return found


# ---- data axes: FSDP's, and those that only reduce gradients ----

FSDP = {"axis": "fsdp", "min_weight_size": 64}  # the norms are smaller, and stay replicated
SEVERAL = {"axis": "fsdp", "min_weight_size": 0, "policy": "dim0"}
BEHIND = {"axis": "fsdp", "min_weight_size": 0, "policy": "compose"}
WITH_TP = ENDS | SPLIT_QKV | GATED
FUSED_TP = ENDS | FUSED_QKV | GATED
FSDP_FIRST = {f"layers.*.mlp.{n}_proj.weight": [["fsdp", "tp"], None] for n in ("gate", "up")}
ENCODED = {f"blocks.*.{n}": "colwise" for n in ("query", "key", "value")} | BLOCKS
LLAMA12 = LLAMA | {"kv_heads": 12}

# Model, arguments, plan, sizes of the mesh's axes, FSDP, number of changed plans. dp and fsdp shard the batch.
OWN_DATA = [
    ("Llama", LLAMA12, {"norm.weight": [None]}, {"dp": 2}, None, 0),
    ("Llama", LLAMA12, {}, {"fsdp": 2}, FSDP, 0),
    ("Llama", LLAMA12, {}, {"fsdp": 3}, SEVERAL, 0),
    ("Llama", LLAMA12, {}, {"dp": 2, "fsdp": 2}, FSDP, 0),
    ("Llama", LLAMA12, {}, {"fsdp": 2, "dp": 2}, SEVERAL, 0),
    ("Llama", LLAMA12, WITH_TP, {"fsdp": 2, "tp": 2}, FSDP, 6),
    ("Llama", LLAMA12, WITH_TP, {"fsdp": 2, "tp": 2}, SEVERAL, 0),
    ("Llama", LLAMA12, WITH_TP, {"tp": 2, "fsdp": 2}, BEHIND, 0),
    ("Llama", LLAMA12 | {"bias": True}, WITH_TP, {"fsdp": 2, "tp": 2}, FSDP, 0),
    ("Llama", LLAMA12 | {"tied": True}, WITH_TP, {"fsdp": 2, "tp": 2}, FSDP, 0),
    ("Llama", LLAMA12 | {"fused": True}, FUSED_TP, {"fsdp": 2, "tp": 2}, FSDP, 0),
    ("Llama", LLAMA12 | {"fused": True}, FUSED_TP, {"fsdp": 2, "tp": 2}, BEHIND, 0),
    ("Llama", LLAMA12 | {"inner": 23}, WITH_TP, {"fsdp": 2, "tp": 2}, SEVERAL, 0),
    ("Llama", LLAMA12, WITH_TP, {"dp": 2, "tp": 2}, None, 6),
    ("Llama", LLAMA12, SEQUENCE, {"dp": 2, "tp": 2}, None, 0),
    ("Llama", LLAMA12, SEQUENCE, {"fsdp": 2, "tp": 2}, FSDP, 4),
    ("Llama", LLAMA12, WITH_TP, {"dp": 2, "fsdp": 2, "tp": 2}, FSDP, 0),
    ("Llama", LLAMA12, FSDP_FIRST, {"fsdp": 2, "tp": 2}, FSDP, 0),
    ("Llama", LLAMA12, {"embed.weight": ["dp", None], "layers.*.mlp.up_proj.weight": ["dp", "fsdp"]}, {"dp": 2, "fsdp": 2}, FSDP, 0),
    ("Llama", LLAMA12, {"layers.*.mlp.up_proj.weight": [["dp", "fsdp"], None]}, {"dp": 2, "fsdp": 2}, None, 0),
    ("Encoder", ENCODER, ENCODED | {"words": "embedding_rowwise"}, {"fsdp": 2, "tp": 2}, FSDP, 2),
    ("Encoder", ENCODER, {}, {"fsdp": 2}, FSDP, 0),
    ("Mixture", LLAMA12 | {"experts": 4}, MIXTURE, {"fsdp": 2, "tp": 2}, FSDP, 4),
    ("Mixture", LLAMA12 | {"experts": 4}, {}, {"dp": 2, "fsdp": 2}, FSDP, 0),
]  # fmt: skip


def own_data_cases():
    found = []
    for name, kwargs, plan, mesh, fsdp, count in OWN_DATA:
        more = {"mesh": mesh, "data": [axis for axis in mesh if axis != "tp"]} | ({"fsdp": fsdp} if fsdp else {})
        tp = mesh.get("tp", 1)
        found.append(case(name, kwargs, tp, plan, "right", "the plan as it is meant") | more)
        chosen = random.Random(f"{SEED} data {name} {kwargs} {mesh} {len(plan)}")
        possible = list(mutations(plan, OWN_STYLES, OWN_ADDED, OPTIONS))
        for kind, text, changed in chosen.sample(possible, min(count, len(possible))):
            found.append(case(name, kwargs, tp, changed, kind, text) | more)
    return found


# ---- the keras dialect: expressions for variables, with specs, or styles that shard dims by name ----


def as_layout_map(plan):
    """Returns the same rules for the weights of the modules; keys of parameters are unchanged."""
    return {key.replace(".", r"\.").replace("*", r"\d+") + ("" if key.endswith("_proj") and "experts" in key else r"\.weight"): rule
            for key, rule in plan.items()}  # fmt: skip


LAYOUTS = {
    "embed/weight": ["tp", None],
    r"layers/\d+/self_attn/(q|k|v)_proj/weight": ["tp", None], r"layers/\d+/self_attn/o_proj/weight": [None, "tp"],
    r"layers/\d+/mlp/(gate|up)_proj/weight": ["tp", None], r"layers/\d+/mlp/down_proj/weight": [None, "tp"],
    "head/weight": ["tp", None],
}  # fmt: skip
CROSSED = {
    r"layers/\d+/self_attn/(q|k|v)_proj/weight": [None, "tp"], r"layers/\d+/mlp/up_proj/weight": [None, "tp"],
    r".*norm/weight": ["tp"],
}  # fmt: skip
# Wrong by design: a layout map cannot specify the reduction over the experts' shards.
EXPERTS = {r".*experts/gate_up_proj": [None, "tp", None], r".*experts/down_proj": [None, None, "tp"]}

# Model, arguments, plan, sizes of tp, number of changed plans.
OWN_KERAS = [
    ("Llama", LLAMA12, LAYOUTS, [2, 3, 4], 0),
    ("Llama", LLAMA12, CROSSED, [2, 4], 0),
    ("Llama", LLAMA12, as_layout_map(WITH_TP), [2, 3, 4], 30),
    ("Llama", LLAMA | {"kv_heads": 4, "bias": True}, LAYOUTS | {r".*(q|k|v)_proj/bias": ["tp"]}, [2, 4], 0),
    ("Llama", LLAMA12 | {"fused": True}, as_layout_map(FUSED_TP), [2, 4], 8),
    ("Llama", LLAMA12 | {"tied": True}, {"embed/weight": [None, "tp"]}, [2], 0),
    ("Encoder", ENCODER, as_layout_map(ENCODED), [2, 4], 10),
    ("Encoder", ENCODER | {"fused": True}, {r"blocks/\d+/qkv/weight": ["tp", None]}, [2], 0),
    ("Encoder", ENCODER, {"positions": ["tp", None], "words/weight": ["tp", None]}, [2], 0),
    ("Mixture", LLAMA12 | {"experts": 4}, as_layout_map(ENDS | SPLIT_QKV), [2], 4),
    ("Mixture", LLAMA12 | {"experts": 4}, EXPERTS, [2, 4], 0),
]


def own_keras_cases():
    found = []
    for name, kwargs, plan, sizes, count in OWN_KERAS:
        for tp in sizes:
            found.append(case(name, kwargs, tp, plan, "right", "the plan as it is meant"))
        chosen = random.Random(f"{SEED} keras {name} {kwargs} {len(plan)}")
        possible = list(mutations(plan, OWN_STYLES, (), {}))
        for kind, text, changed in chosen.sample(possible, min(count, len(possible))):
            found.append(case(name, kwargs, chosen.choice(sizes), changed, kind, text))
    return found


def own_cases():
    found = []
    for name, kwargs, plan, count in OWN:
        sizes = [tp for tp in (2, 3, 4)]
        for tp in sizes:
            found.append(case(name, kwargs, tp, plan, "right", "the plan as it is meant"))
        chosen = random.Random(f"{SEED} {name} {kwargs} {len(plan)}")
        possible = list(mutations(plan, OWN_STYLES, OWN_ADDED, OPTIONS))
        for kind, text, changed in chosen.sample(possible, min(count, len(possible))):
            found.append(case(name, kwargs, chosen.choice(sizes), changed, kind, text))
    return found


# ---- plans for transformers ----

BASE = {"hidden_size": 48, "intermediate_size": 96, "num_attention_heads": 12, "num_hidden_layers": 2, "vocab_size": 96, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 64, "tie_word_embeddings": False}  # fmt: skip
MOE = {"moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "num_local_experts": 4}
FAMILIES = [
    ("LlamaForCausalLM", BASE | {"num_key_value_heads": 12}, 40),
    ("LlamaForCausalLM", BASE | {"num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True}, 20),
    ("Qwen3ForCausalLM", BASE | {"num_key_value_heads": 4, "head_dim": 8}, 25),
    ("Gemma2ForCausalLM", BASE | {"num_key_value_heads": 4, "head_dim": 8, "tie_word_embeddings": True}, 15),
    ("GPTNeoXForCausalLM", BASE, 20),
    ("PhiForCausalLM", BASE, 15),
    ("Phi3ForCausalLM", BASE | {"num_key_value_heads": 12}, 15),
    ("CohereForCausalLM", BASE | {"num_key_value_heads": 12}, 10),
    ("Glm4ForCausalLM", BASE | {"num_key_value_heads": 4, "head_dim": 8}, 15),
    ("Olmo2ForCausalLM", BASE | {"num_key_value_heads": 12}, 15),
    ("Qwen2MoeForCausalLM", BASE | MOE | {"num_key_value_heads": 12, "shared_expert_intermediate_size": 48}, 20),
    ("DeepseekV2ForCausalLM",
     BASE | MOE | {"num_key_value_heads": 12, "q_lora_rank": None, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
                   "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1,
                   "first_k_dense_replace": 1}, 20),
]  # fmt: skip
STYLES = ("colwise", "rowwise", "colwise_gather_output", "rowwise_split_input", "replicate", "embedding_rowwise",
          "embedding_colwise", "packed_colwise", "packed_rowwise", "all_reduce", "sequence_parallel",
          "replicated_with_grad_allreduce", "local_params", "moe_tp_experts", "mla_kv_a_proj")  # fmt: skip
ADDED = ("model.norm", "model.layers.*.input_layernorm", "model.layers.*.post_attention_layernorm",
         "model.layers.*.self_attn", "model.layers.*.mlp", "model.layers.*", "model.layers.*.mlp.gate")  # fmt: skip


def transformers_cases(shipped_plan):
    """Returns the cases. `shipped_plan(class, kwargs)` returns the plan that transformers ships."""
    found = []
    for name, kwargs, count in FAMILIES:
        plan = shipped_plan(name, kwargs)
        for tp in (2, 3, 4):
            found.append(case(name, kwargs, tp, plan, "shipped", "the plan as shipped"))
        chosen = random.Random(f"{SEED} {name} {kwargs}")
        possible = list(mutations(plan, STYLES, ADDED, {}))
        for kind, text, changed in chosen.sample(possible, min(count, len(possible))):
            found.append(case(name, kwargs, chosen.choice((2, 3, 4)), changed, kind, text))
    return found


# ---- both ----


def case(model, kwargs, tp, plan, kind, text):
    return {"model": model, "kwargs": kwargs, "tp": tp, "plan": plan, "mutation_kind": kind, "mutation": text}


def mutations(plan, styles, added, options):
    """Returns (kind, description, plan) of every plan with one change."""
    for key, rule in plan.items():
        if isinstance(rule, list):
            continue
        yield "drop", f"{key}: none", {k: r for k, r in plan.items() if k != key}
        before = rule["style"] if isinstance(rule, dict) else rule
        for style in styles:
            if style != before:
                yield "swap", f"{key}: {style}", plan | {key: style}
        for option, values in options.items() if before in ("colwise", "rowwise") else ():
            for value in values:
                changed = copy.deepcopy(rule) if isinstance(rule, dict) else {"style": rule}
                if changed.get(option) != value:
                    yield "option", f"{key}: {option}: {value}", plan | {key: changed | {option: value}}
    for key in added:
        for style in ("sequence_parallel", "all_reduce", "replicated_with_grad_allreduce", "local_params", "colwise"):
            if key not in plan:
                yield "add", f"{key}: {style}", plan | {key: style}
    pairs = [k for k in plan if k.endswith(("o_proj", "down_proj", "out", "down", "dense"))]
    for key in pairs:
        siblings = [k for k in plan if k.rpartition(".")[0] == key.rpartition(".")[0]]
        yield "drop block", f"{', '.join(siblings)}: none", {k: r for k, r in plan.items() if k not in siblings}


def mesh_of(case):
    """Returns the sizes of a case's axes, major to minor."""
    return case.get("mesh") or {"tp": case["tp"]}


def data_ranks(case):
    """Returns into how many parts the data axes shard a batch."""
    return math.prod(mesh_of(case)[axis] for axis in case.get("data", ()))


def plan_text(plan, dialect, mesh, data=(), fsdp=None):
    import json

    mesh = mesh if isinstance(mesh, dict) else {"tp": mesh}

    def rule(value):
        return (
            value
            if isinstance(value, str)
            else json.dumps(value)
            if isinstance(value, list)
            else "{" + ", ".join(f"{k}: {json.dumps(v)}" for k, v in value.items()) + "}"
        )

    rules = "".join(f"  {json.dumps(key)}: {rule(value)}\n" for key, value in plan.items())
    axes = ", ".join(f"{name}: {size}" for name, size in mesh.items())
    batch = f"data: {{axes: [{', '.join(data)}]}}\n" if data else ""
    batch += f"fsdp: {json.dumps(fsdp)}\n" if fsdp else ""
    rules = rules or "  {}\n"
    return f"format: tpplan.plan/1\ndialect: {dialect}\nmesh: {{{axes}}}\nuneven: torch\n{batch}tp_plan:\n{rules}"
