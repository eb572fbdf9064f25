"""Fixes proposed by the walk over operations: each was verified, so the fixed plan is correct."""

import json
import re

import pytest

from conftest import ROOT, run
from llama_layer import LAYER

MODEL = ROOT / "plans" / "models" / "llama-3-8b.json"
RIGHT = {
    "model.embed_tokens": "embedding_rowwise",
    "lm_head": "colwise_gather_output",
    **{f"model.layers.*.{name}": style for name, style in LAYER.items()},
}


def check(folder, rules):
    """Exit status and the diagnostics with a predicted failure."""
    lines = "".join(f'  "{key}": {style}\n' for key, style in rules.items())
    (folder / "plan.yaml").write_text(
        f"format: tpplan.plan/1\ndialect: transformers\nmesh: {{tp: 4}}\ntp_plan:\n{lines}"
    )
    result = run("check", MODEL, folder / "plan.yaml", "--format", "json")
    return result.returncode, [d for d in json.loads(result.stdout)["diagnostics"] if d.get("fails")]


def test_original_plan_is_correct(tmp_path):
    assert check(tmp_path, RIGHT) == (0, [])


WRONG = {
    "o colwise": (("model.layers.*.self_attn.o_proj", "colwise"), "forward"),
    "down colwise": (("model.layers.*.mlp.down_proj", "colwise"), "forward"),
    "up rowwise": (("model.layers.*.mlp.up_proj", "rowwise"), "forward"),
    "a sum too many": (("model.layers.*.mlp", "all_reduce"), "output"),
    "a gradient summed that is whole": (
        ("model.layers.*.input_layernorm", "replicated_with_grad_allreduce"),
        "gradient",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_proposed_fix_makes_the_plan_correct(name, tmp_path):
    (key, style), fails = WRONG[name]
    rules = RIGHT | {key: style}
    status, found = check(tmp_path, rules)
    assert status == 1 and found[0]["fails"] == fails, found
    remedy = found[0].get("help", "")
    written = re.match(r"write `(.*)` for `(.*)`: this change alone fixes the plan$", remedy)
    left_out = re.match(r"remove the rule `(.*)`: this change alone fixes the plan$", remedy)
    assert written or left_out, found
    if written:
        rules[written[2]] = written[1]
    else:
        del rules[left_out[1]]
    assert check(tmp_path, rules) == (0, [])


@pytest.mark.parametrize("style", ["replicate", "colwise_gather_output", "all_reduce", "sequence_parallel"])
@pytest.mark.parametrize("name", ["self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj", "mlp.down_proj"])
def test_fix_undoes_one_wrong_style(name, style, tmp_path):
    """The diagnostic can be at the rule of another operand, because a replicated value that is combined with shards is
    no error itself.
    """
    key = f"model.layers.*.{name}"
    status, found = check(tmp_path, RIGHT | {key: style})
    assert status == 1
    assert found[0]["help"] == f"write `{RIGHT[key]}` for `{key}`: this change alone fixes the plan"


def test_fix_exchanges_two_styles_back(tmp_path):
    q, o = "model.layers.*.self_attn.q_proj", "model.layers.*.self_attn.o_proj"
    status, found = check(tmp_path, RIGHT | {q: "rowwise", o: "colwise"})
    words = f"write `colwise` for `{q}`, and `rowwise` for `{o}`"
    assert status == 1 and found[0]["help"] == f"{words}: these changes fix the plan"
    assert run("check", MODEL, tmp_path / "plan.yaml", "--fix").returncode == 0


def test_no_fix_is_proposed_if_one_rule_is_not_enough(tmp_path):
    rules = RIGHT | {"model.layers.*.self_attn.o_proj": "colwise", "model.layers.*.mlp.down_proj": "colwise"}
    status, found = check(tmp_path, rules)
    assert status == 1 and "this change alone" not in found[0].get("help", "")


def test_sharding_rule_is_never_replaced_by_a_replicating_one(tmp_path):
    _, found = check(tmp_path, RIGHT | {"model.layers.*.self_attn.o_proj": "colwise"})
    assert "`replicate`" not in found[0]["help"] and "remove the rule" not in found[0]["help"]


# y = down(scale * up(x))
SCALED = {
    "format": "tpplan.model/1", "name": "Scaled", "framework": "torch",
    "modules": [
        {"path": "", "type": "Scaled", "parameters": {"scale": {"shape": [], "dtype": "float32"}}},
        {"path": "up", "type": "Linear", "parameters": {"weight": {"shape": [32, 16], "dtype": "float32"}}},
        {"path": "down", "type": "Linear", "parameters": {"weight": {"shape": [16, 32], "dtype": "float32"}}},
    ],
    "graph": [
        "trace mode=train, dtype=float32, batch=2, sequence=6",
        "input x: float32[2, 6, 16]",
        "with (x):",
        "  with up(x):",
        "    y = linear(x, up.weight) -> float32[2, 6, 32]",
        "    return y",
        "  y = mul(y, scale) -> float32[2, 6, 32]",
        "  with down(y):",
        "    y = linear(y, down.weight) -> float32[2, 6, 16]",
        "    return y",
        "  return y",
        "output y",
    ],
}  # fmt: skip


def test_learned_factor_gets_a_gradient_reduction_rule(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(SCALED))
    rules = {"up": "colwise", "down": "rowwise"}
    for more, status in ({}, 1), ({"scale": "replicated_with_grad_allreduce"}, 0):
        (tmp_path / "plan.yaml").write_text(
            f"format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan: {json.dumps(rules | more)}\n"
        )
        result = run("check", tmp_path / "model.json", tmp_path / "plan.yaml", "--format", "json")
        assert result.returncode == status, result.stdout
        found = json.loads(result.stdout)["diagnostics"]
        helps = 'add `"scale": replicated_with_grad_allreduce`: this change alone fixes the plan'
        assert [d.get("help") for d in found if d.get("fails") == "gradient"] == [helps] * status


@pytest.mark.parametrize("name", ["walk-view-to-global-size", "glu-over-sharded-dim", "walk-softmax-over-sharded-dim"])
def test_fix_of_two_styles_is_offered_and_written(name, tmp_path):
    case, plan = ROOT / "tests" / "golden" / "diagnostics" / name, tmp_path / "plan.yaml"
    plan.write_text((case / "plan.yaml").read_text())
    help_line = b"write `colwise_gather_output` for `a`, and write `rowwise_rep` for `b`: these changes fix the plan"
    result = run("check", case / "model.json", plan, "--format", "json")
    assert result.returncode == 1 and help_line in result.stdout
    assert run("check", case / "model.json", plan, "--fix").returncode == 0
    assert "colwise_gather_output" in plan.read_text() and "rowwise_rep" in plan.read_text()
    assert run("check", case / "model.json", plan).returncode == 0


def test_each_size_that_is_offered_is_right(tmp_path):
    """Sizes must fit the heads, too, which only the walk checks in dialect transformers."""
    lines = "".join(f'  "{key}": {style}\n' for key, style in RIGHT.items())
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"format: tpplan.plan/1\ndialect: transformers\nmesh: {{tp: 3}}\ntp_plan:\n{lines}")
    help_text = json.loads(run("check", MODEL, plan, "--format", "json").stdout)["diagnostics"][0]["help"]
    sizes = re.match(r"set `tp` to (.*) to fit the whole plan", help_text)[1]
    for size in re.findall(r"\d+", sizes):
        assert run("check", MODEL, plan, "--mesh", f"tp={size}").returncode == 0, help_text
