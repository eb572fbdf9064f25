"""Manifests for reports: real models, and a small one with all difficult cases."""

import json
import lzma

from conftest import ROOT, run

HOSTILE = "norm\"><script>alert(1)</script><img src=x onerror=alert(2)>'&amp;\u202eevil\u2066\x1b[31m\n"
SHOWN = "norm\"><script>alert(1)</script><img src=x onerror=alert(2)>'&amp;\\u202eevil\\u2066\\x1b[31m\\n"


def tensor(shape, dtype="float32", **more):
    return {"shape": shape, "dtype": dtype, **more}


# Segments, three dims, shards of different sizes, empty ones, two axes on a dim, a scalar, a tensor without elements,
# integers.
DIFFICULT = {
    "format": "tpplan.model/1",
    "name": "</title><script>alert(0)</script>",
    "framework": "torch",
    "modules": [
        {"path": "", "type": "Model", "buffers": {"mask": tensor([3, 3], "bool")}},
        {
            "path": "layers.0.qkv",
            "type": "Linear",
            "parameters": {
                "weight": tensor([48, 30], segments={"out": [24, 12, 12]}),
                "bias": tensor([48], segments={"out": [24, 12, 12]}),
            },
        },
        {"path": "layers.0.o", "type": "Linear", "parameters": {"weight": tensor([30, 13], "bfloat16")}},
        {"path": "layers.0.short", "type": "Linear", "parameters": {"weight": tensor([5, 8])}},
        {
            "path": "layers.0.experts",
            "type": "Experts",
            "parameters": {"w": tensor([6, 10, 7], dims=["expert", "out", "in"])},
        },
        {
            "path": "layers.0.four",
            "type": "Custom",
            "parameters": {"w": tensor([4, 6, 2, 8], dims=["a", "b", "c", "d"])},
        },
        {"path": "layers.0.both", "type": "Custom", "parameters": {"w": tensor([21, 3], dims=["a", "b"])}},
        {"path": "layers.0.scale", "type": "Custom", "parameters": {"s": tensor([], dims=[])}},
        {"path": "layers.0.none", "type": "Custom", "parameters": {"w": tensor([0, 4], dims=["a", "b"])}},
        {"path": "layers.0.codes", "type": "Custom", "parameters": {"w": tensor([8, 16], "int8", dims=["a", "b"])}},
        {"path": HOSTILE, "type": "LayerNorm", "parameters": {"weight": tensor([30])}},
    ],
}

DIFFICULT_PLAN = """format: tpplan.plan/1
mesh: {fsdp: 2, tp: 4}
uneven: torch
tp_plan:
  "*.qkv": colwise
  "*.o": rowwise
  "*.short": {style: colwise, use_local_output: false}
  "*.experts.w": {spec: [fsdp, tp, null]}
  "*.four.w": {spec: [null, fsdp, null, tp]}
  "*.both.w": {spec: [[tp, fsdp], null]}
  "*.codes.w": {spec: [tp, null]}
data: {axes: [fsdp], dim: 0}
fsdp: {axis: fsdp, min_weight_size: 100, patterns: ["*.qkv", "*.o"], policy: largest_dim}
"""


def compile_files(folder, model, plan, *flags, name="manifest.json"):
    output = folder / name
    result = run("compile", model, plan, "-o", output, *flags)
    assert result.returncode == 0, result.stderr.decode()
    return output


def compile_case(folder, model, plan, *flags, name="manifest.json"):
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "plan.yaml").write_text(plan)
    return compile_files(folder, folder / "model.json", folder / "plan.yaml", *flags, name=name)


def difficult(folder):
    return compile_case(folder, DIFFICULT, DIFFICULT_PLAN)


def llama(folder):
    return compile_files(folder, ROOT / "plans/models/llama-3-8b.json", ROOT / "plans/llama-fsdp-tp.yaml")


def mixtral(folder):
    model = folder / "mixtral.json"
    model.write_bytes(lzma.decompress((ROOT / "tests/plans/models/mixtral-8x7b.json.xz").read_bytes()))
    return compile_files(folder, model, ROOT / "plans/mixtral.yaml")


def tied(folder, reason="rule"):
    """lm_head.weight is model.embed_tokens.weight: its bytes count once."""
    model = {
        "format": "tpplan.model/1",
        "name": "Tied",
        "framework": "torch",
        "tied": [["head.weight", "embed.weight"]],
        "modules": [
            {"path": "embed", "type": "Embedding", "parameters": {"weight": tensor([32, 8])}},
            {"path": "mid", "type": "Linear", "parameters": {"weight": tensor([8, 8], "bfloat16")}},
            {"path": "head", "type": "Linear", "parameters": {"weight": tensor([32, 8])}},
        ],
    }
    rules = "  embed: rowwise\n" + ("  head: colwise\n" if reason == "rule" else "")
    return compile_case(folder, model, "format: tpplan.plan/1\nmesh: {tp: 4}\ntp_plan:\n" + rules)


CASES = {
    "difficult": difficult,
    "llama": llama,
    "mixtral": mixtral,
    "tied": tied,
    "tied without a rule": lambda folder: tied(folder, "tied"),
}


def search_folder(folder):
    """A model of four layers that `tpplan search` finds plans for in a moment."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1536,
        "num_attention_heads": 8,
        "num_hidden_layers": 4,
        "vocab_size": 4096,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    assert run("import", "--from", "config", "config.json", "-o", "model.json", cwd=folder).returncode == 0
    return folder


def search_words():
    topology = ROOT / "plans/topologies/h100.yaml"
    step = ("--topology", topology, "--batch", 4, "--sequence", 2048)
    return ("search", "model.json", "--ranks", 4, *step, "--mesh", "dp,fsdp", "--recipe", "adamw_mixed")
