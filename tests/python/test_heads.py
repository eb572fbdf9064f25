"""Heads and fused segments, inferred from sizes and attribute names of popular codebases."""

import json

import bridge
import pytest

bridge.needs("torch")

from torch import nn  # noqa: E402

from tpplan.export import torch_module  # noqa: E402

SIZE = 32


def module(type_name, projections, **attributes):
    """A module of this type with linear projections {name: out} of SIZE, and these attributes."""
    made = type(type_name, (nn.Module,), {})()
    for name, out in projections.items():
        made.add_module(name, nn.Linear(SIZE, out) if isinstance(out, int) else nn.Linear(*out))
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


# Type, projections, attributes; the heads found (number, of kv, size), and the projections with their segments.
CODEBASES = {
    "nanoGPT": ("CausalSelfAttention", {"c_attn": 96, "c_proj": 32}, {"n_head": 4, "n_embd": 32}, (4, None, 8), ("c_attn", [32] * 3)),
    "minGPT, another type": ("Mixer", {"c_attn": 96, "c_proj": 32}, {"n_head": 4}, (4, None, 8), ("c_attn", [32] * 3)),
    "timm": ("Attention", {"qkv": 96, "proj": 32}, {"num_heads": 4, "head_dim": 8}, (4, None, 8), ("qkv", [32] * 3)),
    "old timm": ("Attention", {"qkv": 96, "proj": 32}, {"num_heads": 4}, (4, None, 8), ("qkv", [32] * 3)),
    "x-transformers": ("Attention", {"to_q": 64, "to_k": 64, "to_v": 64, "to_out": (64, 32)}, {"heads": 4}, (4, None, 16), None),
    "torchtune": (
        "MultiHeadAttention",
        {"q_proj": 32, "k_proj": 16, "v_proj": 16, "output_proj": 32},
        {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8},
        (4, 2, 8),
        None,
    ),
    "lit-gpt": (
        "CausalSelfAttention",
        {"qkv": 64, "proj": 32},
        {"config": type("Config", (), {"n_head": 4, "n_query_groups": 2, "head_size": 8})()},
        (4, 2, 8),
        ("qkv", [32, 16, 16]),
    ),
    "MPT": ("MptAttention", {"Wqkv": 96, "out_proj": 32}, {"n_heads": 4, "head_dim": 8}, (4, None, 8), ("Wqkv", [32] * 3)),
    "multi-query": ("Attention", {"qkv": 48, "proj": 32}, {"n_head": 4}, (4, 1, 8), ("qkv", [32, 8, 8])),
    "Megatron": (
        "SelfAttention",
        {"linear_qkv": 64, "linear_proj": 32},
        {"num_attention_heads_per_partition": 4, "num_query_groups_per_partition": 2, "hidden_size_per_attention_head": 8},
        (4, 2, 8),
        ("linear_qkv", None),
    ),
    "BLOOM": (
        "BloomAttention",
        {"query_key_value": 96, "dense": 32},
        {"num_heads": 4, "head_dim": 8},
        (4, None, 8),
        ("query_key_value", None),
    ),
    "CodeGen": (
        "CodeGenAttention",
        {"qkv_proj": 96, "out_proj": 32},
        {"num_attention_heads": 4, "head_dim": 8},
        (4, None, 8),
        ("qkv_proj", None),
    ),
    "no heads": ("Mixer", {"qkv": 96}, {}, None, ("qkv", None)),
    "sizes that say nothing": ("Mixer", {"qkv": 90}, {"n_head": 4}, (4, None, None), ("qkv", None)),
}  # fmt: skip


def graph_of(name):
    type_name, projections, attributes, _, _ = CODEBASES[name]
    model = nn.Module()
    model.attn = module(type_name, projections, **attributes)
    return torch_module.model_graph(model)


@pytest.mark.parametrize("name", CODEBASES)
def test_heads_and_segments_are_inferred(name):
    *_, heads, fused = CODEBASES[name]
    found = {m["path"]: m for m in graph_of(name)["modules"]}
    attributes = found["attn"].get("attributes", {})
    assert heads == (tuple(map(attributes.get, ("num_heads", "num_kv_heads", "head_dim"))) if attributes else None)
    if fused:
        for parameter in found[f"attn.{fused[0]}"]["parameters"].values():
            assert parameter.get("segments", {}).get("out") == fused[1]


def test_guesses_are_printed(capsys):
    graph_of("nanoGPT")
    assert (
        capsys.readouterr().err == "note: the sizes of `attn.c_attn` imply head_dim 8, which no attribute specifies\n"
    )
    graph_of("timm")
    assert capsys.readouterr().err == ""


# Sizes of tp that do not split heads, and sizes that are rejected.
@pytest.mark.parametrize(
    "name, fused, fits, cut",
    [
        ("nanoGPT", "c_attn", 4, 8),
        ("timm", "qkv", 2, 8),
        ("lit-gpt", "qkv", 2, 4),
        ("multi-query", "qkv", 1, 2),
        ("Megatron", "linear_qkv", 2, 4),
        ("BLOOM", "query_key_value", 4, 8),
    ],
)
def test_fused_projections_are_sharded_between_heads(tmp_path, name, fused, fits, cut):
    graph = graph_of(name)
    for size in (fits, cut):
        for options, is_cut in (("", size == cut), (", output_layouts: Replicate", False)):
            rule = f"attn.{fused}: {{style: colwise{options}}}"
            plan = f"format: tpplan.plan/1\nmesh: {{tp: {size}}}\ntp_plan:\n  {rule}\n"
            result = bridge.run("check", *bridge.write(tmp_path, json.dumps(graph), plan), "--allow", "TP5150")
            said = result.stdout.decode()
            assert ("TP5007" in said) == is_cut and (is_cut or "TP50" not in said), (rule, said)
