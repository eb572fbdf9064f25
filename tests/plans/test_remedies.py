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
