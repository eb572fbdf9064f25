"""Heuristic diagnostics from names and shapes are dropped once the walk has computed the result: recorded plans, checked with and without
the operations of their models."""

import json
import re

import pytest
from conftest import ROOT, run
from test_runs import FAILS, ORDER, files

# Code, recording, model, plan, recorded outcome.
DROPPED = [
    ("TP5008", "runs_transformers", 1, "the plan as shipped", "crash_forward"),
    ("TP5008", "runs_transformers", 8, "model.layers.*.self_attn.k_proj: packed_colwise", "wrong_output"),
    ("TP5013", "runs_transformers", 6, "the plan as shipped", "ok"),
    ("TP5013", "runs_transformers", 6, "lm_head: all_reduce", "wrong_output"),
    ("TP5019", "runs_own_more", 0, "layers.*.input_norm: none", "ok"),
    ("TP5019", "runs_transformers", 0, "model.embed_tokens: sequence_parallel", "wrong_grad"),
    ("TP5020", "runs_own_more", 0, "embed: rowwise_split_input", "ok"),
]
# The step fails in another part of the model: the walk has no result for the place of the heuristic.
KEPT = [
    ("TP5013", "runs_transformers", 6, "model.layers.*.mlp.down_proj: rowwise", "crash_forward"),
    ("TP5019", "runs_transformers", 1, "model.layers.*.mlp: sequence_parallel", "crash_forward"),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """By recording: its cases with their files, the models also without operations."""
    made = {}
    for name in sorted({row[1] for row in DROPPED + KEPT}):
        folder = tmp_path_factory.mktemp(name)
        made[name] = list(files(folder, name))
        for model in {model for _, model, _ in made[name]}:
            document = json.loads(model.read_text())
            del document["graph"]
            model.with_suffix(".bare").write_text(json.dumps(document))
    return made


def verdicts(recorded, name, number, mutation, outcome):
    """(exit status, codes, class of the first failure) with operations, and the same without, of every case of that plan."""
    cases = [
        (model, plan)
        for case, model, plan in recorded[name]
        if (case["file"], case["mutation"], case["outcome"]) == (number, mutation, outcome)
    ]
    assert cases, "no such plan was recorded"
    for model, plan in cases:
        yield [judged(path, plan) for path in (model, model.with_suffix(".bare"))]


def judged(model, plan):
    result = run("check", model, plan, "--format", "json")
    found = json.loads(result.stdout)["diagnostics"]
    fails = min((d["fails"] for d in found if "fails" in d), key=ORDER.index, default=None)
    return result.returncode, {d["code"] for d in found}, fails


@pytest.mark.parametrize("code, name, number, mutation, outcome", DROPPED)
def test_heuristic_is_dropped_if_the_walk_has_the_result(recorded, code, name, number, mutation, outcome):
    found = []
    for (status, with_graph, fails), (_, without_graph, _) in verdicts(recorded, name, number, mutation, outcome):
        assert (status, fails) == ((1, FAILS[outcome]) if outcome in FAILS else (0, None))
        assert code not in with_graph
        found.append(code in without_graph)
    assert any(found), "nothing is guessed, so that nothing is dropped"


@pytest.mark.parametrize("code, name, number, mutation, outcome", KEPT)
def test_heuristic_remains_if_the_step_fails_elsewhere(recorded, code, name, number, mutation, outcome):
    for (status, with_graph, fails), (_, without_graph, _) in verdicts(recorded, name, number, mutation, outcome):
        assert (status, fails) == (1, FAILS[outcome])
        assert code in with_graph and code in without_graph


def test_every_dropped_code_has_a_plan_here():
    table = (ROOT / "lib" / "diagnostics" / "diagnostic_kinds.def").read_text()
    heuristics = set(re.findall(r"\((TP\d{4}), [^()]*\.is_heuristic = true", table))
    assert {row[0] for row in DROPPED} == {code for code in heuristics if code < "TP5150"}
