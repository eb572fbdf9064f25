"""The simulation on virtual ranks (lockstep.py) predicts the result on real ranks for every recorded plan."""

import collections
import json
import lzma

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402

import graph_runs  # noqa: E402
import lockstep  # noqa: E402

RUNS = json.loads(lzma.decompress((bridge.ROOT / "tests/truth/data/runs_transformers.json.xz").read_bytes()))
DENSE = [i for i, model in enumerate(RUNS["models"]) if "nonzero" not in model["graph"]["strings"]]


def leaves_of(model):
    """A tensor for every leaf of the graph. No weight or bias is one, zero or equal to another by chance."""
    graph, generator, found = graph_runs.Graph(model["graph"]), torch.Generator().manual_seed(5), {}
    for value, kind, path in graph.leaves:
        shape, dtype = graph.shapes[value], getattr(torch, graph.dtypes[value])
        if kind == "param":
            noise = torch.randn(shape, generator=generator, dtype=torch.float64)
            found[path] = (noise / shape[-1] ** 0.5 if len(shape) > 1 else 1 + 0.2 * noise).to(dtype)
        elif dtype.is_floating_point:
            found[path] = torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype)
        else:
            found[path] = torch.randint(3, 24, shape, generator=generator)
    return found


@pytest.mark.parametrize("number", DENSE, ids=lambda i: f"{RUNS['models'][i]['name']}-{i}")
def test_simulated_plans_have_the_recorded_outcome(number):
    model = RUNS["models"][number]
    leaves = leaves_of(model)
    wanted = lockstep.whole_run(model, leaves)
    wrong, unknown = [], 0
    cases = [case for case in RUNS["cases"] if case["file"] == number]
    for case in cases:
        try:
            found, why = lockstep.judge(model, case["tp"], case["plan"], leaves, wanted)
        except lockstep.Unsupported:
            unknown += 1
            continue
        if found != case["outcome"]:
            wrong.append(
                f"tp {case['tp']} {case['mutation']}: {case['outcome']} {case.get('error', '')}, simulated {found} {why}"
            )
    assert not wrong
    assert unknown <= len(cases) // 10


def test_recorded_plans_cover_every_outcome():
    outcomes = collections.Counter(case["outcome"] for case in RUNS["cases"] if case["file"] in DENSE)
    assert set(outcomes) == {"ok", "crash_apply", "crash_forward", "wrong_output", "wrong_grad"}
    assert min(outcomes.values()) >= 5


def test_missing_collective_is_detected(monkeypatch):
    """The simulation can fail: without the reduction after a rowwise layer the correct plan has a wrong output."""
    number = DENSE[0]
    case = next(
        c for c in RUNS["cases"] if c["file"] == number and c["outcome"] == "ok" and c["mutation_kind"] == "shipped"
    )
    leaves = leaves_of(RUNS["models"][number])
    assert lockstep.judge(RUNS["models"][number], case["tp"], case["plan"], leaves)[0] == "ok"
    monkeypatch.setattr(lockstep, "_sum", lambda tensors: tensors)
    assert lockstep.judge(RUNS["models"][number], case["tp"], case["plan"], leaves)[0] == "wrong_output"
