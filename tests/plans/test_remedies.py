"""Remedies of the walk over operations: every one was tried, so that the plan with it is right."""

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
    """Exit status and the findings that say how a run would fail."""
    lines = "".join(f'  "{key}": {style}\n' for key, style in rules.items())
    (folder / "plan.yaml").write_text(
        f"format: tpplan.plan/1\ndialect: transformers\nmesh: {{tp: 4}}\ntp_plan:\n{lines}"
    )
    result = run("check", MODEL, folder / "plan.yaml", "--format", "json")
    return result.returncode, [d for d in json.loads(result.stdout)["diagnostics"] if d.get("fails")]


def test_the_plan_that_the_wrong_ones_come_from_is_right(tmp_path):
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
def test_a_wrong_plan_is_right_once_its_remedy_is_taken(name, tmp_path):
    (key, style), fails = WRONG[name]
    rules = RIGHT | {key: style}
    status, found = check(tmp_path, rules)
    assert status == 1 and found[0]["fails"] == fails, found
    remedy = found[0].get("help", "")
    written = re.match(r"write `(.*)` for `(.*)`: with this change alone the plan is right$", remedy)
    left_out = re.match(r"leave the rule `(.*)` out: with this change alone the plan is right$", remedy)
    assert written or left_out, found
    if written:
        rules[written[2]] = written[1]
    else:
        del rules[left_out[1]]
    assert check(tmp_path, rules) == (0, [])


def test_what_no_change_of_one_rule_mends_has_no_remedy(tmp_path):
    rules = RIGHT | {"model.layers.*.self_attn.o_proj": "colwise", "model.layers.*.mlp.down_proj": "colwise"}
    status, found = check(tmp_path, rules)
    assert status == 1 and "with this change alone" not in found[0].get("help", "")


def test_a_rule_that_cuts_is_never_answered_with_one_that_does_not(tmp_path):
    _, found = check(tmp_path, RIGHT | {"model.layers.*.self_attn.o_proj": "colwise"})
    assert "`replicate`" not in found[0]["help"] and "leave the rule" not in found[0]["help"]


# y = down(scale * up(x)), as `python -m tpplan.export` writes it.
SCALED = {
    "format": "tpplan.model/1", "name": "Scaled", "framework": "torch",
    "modules": [
        {"path": "", "type": "Scaled", "parameters": {"scale": {"shape": [], "dtype": "float32"}}},
        {"path": "up", "type": "Linear", "parameters": {"weight": {"shape": [32, 16], "dtype": "float32"}}},
        {"path": "down", "type": "Linear", "parameters": {"weight": {"shape": [16, 32], "dtype": "float32"}}},
    ],
    "graph": {
        "mode": "train", "dtype": "float32", "batch": 2, "sequence": 6,
        "strings": ["@enter", "", "up", "linear", "@exit", "mul", "down", "float32", "x", "up.weight", "scale",
                    "down.weight"],
        "shapes": [[2, 6, 16], [32, 16], [2, 6, 32], [], [16, 32]],
        "sizes": [],
        "values": [[s, 7, int(i > 2)] for i, s in enumerate((0, 0, 0, 1, 2, 2, 3, 2, 2, 4, 0, 0, 0))],
        "leaves": [[0, "input", 8], [3, "param", 9], [6, "param", 10], [9, "param", 11]],
        "nodes": [
            [0, 1, 1, 0, [[[0], 0, 1]]], [0, 2, 1, 0, [[[0], 1, 2]]], [3, [[2], [3]], [], [4]], [4, 2, [[[], 4, 5]]],
            [5, [[5], [6]], [], [7]], [0, 6, 1, 0, [[[0], 7, 8]]], [3, [[8], [9]], [], [10]], [4, 6, [[[], 10, 11]]],
            [4, 1, [[[], 11, 12]]],
        ],
        "guards": [], "output": 12,
    },
}  # fmt: skip


def test_a_learned_factor_between_cut_layers_gets_a_rule_that_sums_its_gradient(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(SCALED))
    rules = {"up": "colwise", "down": "rowwise"}
    for more, status in ({}, 1), ({"scale": "replicated_with_grad_allreduce"}, 0):
        (tmp_path / "plan.yaml").write_text(
            f"format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan: {json.dumps(rules | more)}\n"
        )
        result = run("check", tmp_path / "model.json", tmp_path / "plan.yaml", "--format", "json")
        assert result.returncode == status, result.stdout
        found = json.loads(result.stdout)["diagnostics"]
        helps = 'add `"scale": replicated_with_grad_allreduce`: with this change alone the plan is right'
        assert [d.get("help") for d in found if d.get("fails") == "gradient"] == [helps] * status


@pytest.mark.parametrize("name", ["walk-view-to-sizes-of-the-whole", "glu-of-a-piece", "walk-computed-over-a-piece"])
def test_two_styles_that_mend_a_plan_together_are_offered_and_written(name, tmp_path):
    case, plan = ROOT / "tests" / "golden" / "diagnostics" / name, tmp_path / "plan.yaml"
    plan.write_text((case / "plan.yaml").read_text())
    help_line = (
        b"write `colwise_gather_output` for `a`, and write `rowwise_rep` for `b`: with these changes the plan is right"
    )
    result = run("check", case / "model.json", plan, "--format", "json")
    assert result.returncode == 1 and help_line in result.stdout
    assert run("check", case / "model.json", plan, "--fix").returncode == 0
    assert "colwise_gather_output" in plan.read_text() and "rowwise_rep" in plan.read_text()
    assert run("check", case / "model.json", plan).returncode == 0
