"""Identical layers are copied, not walked: for any model, plan and runtime, each phase has the result of a walk of every layer
(each_layer.cc compares them, for the plan and for each plan with one rule less)."""

import json
import lzma
import pathlib
import random
import re
import subprocess

import pytest
import stack_models
from conftest import PROGRAM, ROOT, run

DRIVER = pathlib.Path(PROGRAM).resolve().parent / "tests" / "tpplan_each_layer"
LLAMA = ROOT / "plans" / "models" / "llama-3-8b.json"
RECORDED = json.loads(lzma.decompress((ROOT / "tests/import/data/configs.json.xz").read_bytes()))
FAMILIES = {row["config"]["model_type"]: row["config"] for row in RECORDED if row["graph"] is not None}
LAYERS = 14  # the fewest that detect a period of two kinds that starts at the fourth layer

# One layer is sharded differently: no result of its neighbours may be reused.
ONE_LAYER = """\
format: tpplan.plan/1
mesh: {tp: 4}
tp_plan:
  "model.layers.*.self_attn.[qkv]_proj": colwise
  "model.layers.*.self_attn.o_proj": rowwise
  "model.layers.*.mlp.gate_proj": colwise
  "model.layers.*.mlp.up_proj": colwise
  "model.layers.*.mlp.down_proj": rowwise
  "model.layers.17.mlp.gate_proj": replicate
  "model.layers.17.mlp.up_proj": replicate
  "model.layers.17.mlp.down_proj": replicate
"""
TORCH = """\
format: tpplan.plan/1
dialect: torch
mesh: {tp: 2}
tp_plan:
  "model.layers.*.self_attn.[qkv]_proj": colwise
  "model.layers.*.self_attn.o_proj": rowwise
  "model.layers.*.mlp.gate_proj": colwise
  "model.layers.*.mlp.up_proj": colwise
  "model.layers.*.mlp.down_proj": rowwise
"""
# Each layer of the model swaps two dims of equal size: its input is sharded along the one, along the other, and so on.
TURNING = """\
format: tpplan.plan/1
dialect: torch
mesh: {tp: 2}
tp_plan:
  "embed": {style: rowwise, input_layouts: Replicate, output_layouts: Shard(1)}
  "head": {style: prepare_module_input, input_layouts: [Shard(1)], desired_input_layouts: [Replicate], use_local_output: true}
"""
# Recomputed layers save less: all layers, or all but the last two, which the walk processes as usual.
REMAT = """\
format: tpplan.plan/1
mesh: {{tp: 4}}
remat: [{remat}]
tp_plan:
  "model.layers.*.self_attn.[qkv]_proj": colwise
  "model.layers.*.self_attn.o_proj": rowwise
  "model.layers.*.mlp.gate_proj": colwise
  "model.layers.*.mlp.up_proj": colwise
  "model.layers.*.mlp.down_proj": rowwise
"""


def compare(model, plan, *mesh):
    """(checked plans, layers not walked, layers not walked in the backward pass)"""
    result = subprocess.run([DRIVER, model, plan, *mesh], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    judged, _, repeated, back = map(int, re.findall(r"\d+", result.stdout))
    return judged, repeated, back


@pytest.mark.parametrize("plan", ["llama", "llama-fsdp-tp"])
def test_shipped_plans_match_a_walk_of_every_layer(plan):
    judged, repeated, back = compare(LLAMA, ROOT / "plans" / f"{plan}.yaml")
    assert judged > 10 and repeated > 100 and back > 50


@pytest.mark.parametrize("dialect", ["glob", "transformers"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_matches_a_walk_of_every_layer(family, dialect, tmp_path):
    config = FAMILIES[family] | {"num_hidden_layers": LAYERS}
    if "layer_types" in config:
        config["layer_types"] = (config["layer_types"] * LAYERS)[:LAYERS]
    (tmp_path / "config.json").write_text(json.dumps(config))
    model, plan = tmp_path / "model.json", tmp_path / "plan.yaml"
    assert run("import", "--from", "config", "config.json", "-o", model, cwd=tmp_path).returncode == 0
    assert run("init", model, "--mesh", "tp=2", "--dialect", dialect, "-o", plan).returncode == 0
    _, repeated, back = compare(model, plan)
    assert repeated > 0 and back > 0


def test_differently_sharded_layer_is_walked(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(ONE_LAYER)
    judged, repeated, _ = compare(LLAMA, plan)
    assert judged == 36 and repeated < 60  # without the rules for that layer all are identical


def test_torch_hooks_match_a_walk_of_every_layer(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(TORCH)
    _, repeated, back = compare(LLAMA, plan)
    assert repeated > 100 and back > 50


def test_layers_with_other_input_layouts_are_walked(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(TURNING)
    compare(ROOT / "tests" / "plans" / "models" / "turning.json", plan)


@pytest.mark.parametrize(
    "remat", ['"model.layers.*"', '"model.layers.?", "model.layers.[12]?"', '"model.layers.30.mlp"']
)
def test_memory_of_recomputed_layers_matches_a_full_walk(remat, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(REMAT.format(remat=remat))
    _, repeated, back = compare(LLAMA, plan)
    assert repeated > 50 and back > 25


def test_random_stacks_match_a_walk_of_every_layer(tmp_path):
    """Layers that differ in one respect, or in their sharding; in their inputs and outputs; with shared parameters (stack_models.py)."""
    repeated, back = [], []
    for seed in range(160):
        drawn = random.Random(seed)
        graph, count = stack_models.draw_model(drawn)
        model, plan = tmp_path / f"{seed}.json", tmp_path / f"{seed}.yaml"
        stack_models.write_model(graph, model, stack_models.tie(graph, drawn) if drawn.random() < 0.1 else [])
        plan.write_text(stack_models.draw_plan(drawn, graph, count))
        _, forward, backward = compare(model, plan)
        repeated.append(forward > 0)
        back.append(backward > 0)
    assert sum(repeated) > 60 and sum(back) > 50, (sum(repeated), sum(back))
