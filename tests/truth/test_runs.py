"""Plans recorded on real ranks: the result of `tpplan check` with operations matches the outcome, and the collectives of `tpplan compile`
match the calls (record_runs.py, data/README.md)."""

import functools
import json
import re

import pytest
from conftest import ROOT, run
from recorded import load
from run_cases import mesh_of, plan_text

RUNS = {
    "runs_own": "glob",
    "runs_own_more": "glob",
    "runs_data": "glob",
    "runs_keras": "keras",
    "runs_transformers": "transformers",
    "runs_torch": "torch",
    "runs_torch_more": "torch",
}


def files(folder, name):
    """(case, model file, plan file) of every recorded plan."""
    recorded = load(name)
    for number, model in enumerate(recorded["models"]):
        (folder / f"{number}.json").write_text(json.dumps(model))
    for number, case in enumerate(recorded["cases"]):
        plan = folder / f"{number}.yaml"
        plan.write_text(plan_text(case["plan"], RUNS[name], mesh_of(case), case.get("data", ()), case.get("fsdp")))
        yield case, folder / f"{case['file']}.json", plan


@pytest.fixture(scope="session")
def checked(tmp_path_factory):
    """checked(name): (case, exit status, diagnostics) of every recorded plan, each checked once."""

    @functools.cache
    def rows(name):
        found = []
        for case, model, plan in files(tmp_path_factory.mktemp(name), name):
            result = run("check", model, plan, "--format", "json")
            found.append((case, result.returncode, json.loads(result.stdout)["diagnostics"]))
        return found

    return rows


@pytest.mark.parametrize("name", RUNS)
def test_plan_with_a_correct_step_is_accepted(checked, name):
    rows = [row for row in checked(name) if row[0]["outcome"] == "ok"]
    refused = [
        (case["mutation"], mesh_of(case), [d["message"] for d in found if d["severity"] == "error"])
        for case, status, found in rows
        if status
    ]
    assert not refused
    assert len(rows) >= 25


FAILS = {
    "crash_apply": "apply",
    "crash_forward": "forward",
    "wrong_output": "output",
    "wrong_grad": "gradient",
    "crash_backward": "gradient",
}
ORDER = ("apply", "forward", "output", "gradient")
ONLY_ON_CPU = "scaled_dot_product_flash_attention_for_cpu"  # does not support DTensors; torch's attention for GPUs does


LEAST_WRONG = {"runs_data": 15, "runs_keras": 15}


@pytest.mark.parametrize("name", RUNS)
def test_every_failed_plan_is_an_error_of_its_class(checked, name):
    rows = [row for row in checked(name) if row[0]["outcome"] != "ok" and ONLY_ON_CPU not in row[0].get("error", "")]
    assert len(rows) >= LEAST_WRONG.get(name, 40)
    missed = [(case["mutation"], mesh_of(case), case["outcome"]) for case, status, _ in rows if not status]
    assert not missed
    classes = [
        (case, min((d["fails"] for d in found if "fails" in d), key=ORDER.index, default=None))
        for case, _, found in rows
    ]
    other = [
        (case["mutation"], mesh_of(case), case["outcome"], fails)
        for case, fails in classes
        if fails != FAILS[case["outcome"]]
    ]
    assert len(other) <= max(1, len(rows) // 200), other


def forecast(model, plan):
    """The collectives as torch calls them with gloo, which has no all_to_all: it gathers, and each rank slices."""
    result = run("compile", model, plan)
    assert result.returncode == 0, result.stderr
    return [
        [c["phase"], c["kind"].replace("all_to_all", "all_gather"), c["axis"], c["shape"], c["dtype"]]
        for c in json.loads(result.stdout)["collectives"]
    ]


def as_called(call):
    """torch concatenates the shards before a scatter: only the number of elements remains."""
    shape = call[3]
    count = 1
    for size in shape:
        count *= size
    return [*call[:3], count if call[1] == "reduce_scatter" else shape, call[4]]


def test_collectives_of_tpplan_torch_match_the_ranks(tmp_path):
    """In order, with axis, shape and dtype: for every intended plan, and for nearly all variants with one changed rule, in which DTensor
    chooses the cheapest strategy. Without data axes, whose ranks have a part of the batch and gather parameters."""
    rows = [row for row in files(tmp_path, "runs_own_more") if "collectives" in row[0] and "data" not in row[0]]
    rows = [row for row in rows if not any(isinstance(rule, list) for rule in row[0]["plan"].values())]
    other = []
    for case, model, plan in rows:
        found, called = [list(map(as_called, calls)) for calls in (forecast(model, plan), case["collectives"])]
        if found != called:
            other.append(
                (
                    case["mutation"],
                    mesh_of(case),
                    next(pair for pair in zip([*found, None], [*called, None]) if pair[0] != pair[1]),
                )
            )
    assert len(rows) >= 20
    assert not [row for row in other if row[0] == "the plan as it is meant"]
    assert len(other) <= len(rows) // 6, other


def test_collectives_of_data_axes_match_the_ranks(tmp_path):
    """FSDP's gathers and scatters and the gradient reductions among the calls of model axes: every call of every correct plan in which
    each data rank had a batch of the recorded size."""
    rows = [row for row in files(tmp_path, "runs_data") if "collectives" in row[0]]
    axes = {tuple(mesh_of(case)) for case, _, _ in rows}
    assert {
        ("dp",),
        ("fsdp",),
        ("fsdp", "tp"),
        ("dp", "fsdp"),
        ("dp", "tp"),
        ("tp", "fsdp"),
        ("dp", "fsdp", "tp"),
    } <= axes
    assert len(rows) >= 25
    for case, model, plan in rows:
        found, called = [list(map(as_called, calls)) for calls in (forecast(model, plan), case["collectives"])]
        assert found == called, (case["mutation"], mesh_of(case), case.get("fsdp"))
        assert {call[2] for call in called} == set(mesh_of(case))


# ---- a recorded step for each diagnostic ----

KINDS = (ROOT / "lib/diagnostics/diagnostic_kinds.def").read_text()
OF_LOSSES = (
    "TP5115",
    "TP5116",
    "TP5117",
    "TP5118",
    "TP5120",
    "TP5121",
    "TP5127",
)  # python/test_loss_end.py compares these with real ranks
OF_PROGRAMS = ("TP5122",)  # of programs under jax.shard_map: python/test_jaxpr_graph.py
OF_TYPES = (
    "TP5123",
)  # of plans with communication dtypes, which transformers does not support: python/test_sent_dtypes.py
OF_DATA = ("TP5124",)  # of data axes, on which transformers' runs have one rank: python/test_data_dim.py
CODES = [
    code
    for code in re.findall(r"^TPPLAN_DIAGNOSTIC\((TP51\d\d), \w+, Error,", KINDS, re.M)
    if code not in (*OF_LOSSES, *OF_PROGRAMS, *OF_TYPES, *OF_DATA)
]


def test_every_walk_diagnostic_has_a_failed_and_a_correct_run(tmp_path):
    recorded = load("runs_findings")
    for number, model in enumerate(recorded["models"]):
        (tmp_path / f"{number}.json").write_text(json.dumps(model))
    seen = {}
    for case in recorded["cases"]:
        plan = tmp_path / "plan.yaml"
        plan.write_text(plan_text(case["plan"], "transformers", case["tp"]))
        result = run("check", tmp_path / f"{case['file']}.json", plan, "--format", "json")
        errors = [(d["code"], d["fails"]) for d in json.loads(result.stdout)["diagnostics"] if d["severity"] == "error"]
        failed = case["outcome"] != "ok"
        assert errors == ([(case["mutation"], FAILS[case["outcome"]])] if failed else []), (case, result.stdout)
        assert failed == (case["mutation_kind"] == "wrong")
        seen.setdefault(case["mutation"], set()).add(failed)
    assert CODES and {code: {True, False} for code in CODES} == seen


def test_every_walk_diagnostic_has_a_golden_case():
    said = "".join(path.read_text() for path in (ROOT / "tests/golden/diagnostics").glob("walk-*/expected.txt"))
    assert {code for code in [*CODES, *OF_TYPES, "TP5114"] if f"[{code}]" not in said} == set()
    said = "".join(path.read_text() for path in (ROOT / "tests/golden/diagnostics").glob("loss-*/expected.txt"))
    assert {code for code in [*OF_LOSSES, "TP5119"] if f"[{code}]" not in said} == set()
    said = "".join(path.read_text() for path in (ROOT / "tests/golden/diagnostics").glob("shard-map-*/expected.txt"))
    assert {code for code in OF_PROGRAMS if f"[{code}]" not in said} == set()
