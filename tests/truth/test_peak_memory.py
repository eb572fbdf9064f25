"""`tpplan check --run` finds the peak memory that torch's MemTracker saw in training steps on fake tensors (data/README.md)."""

import json

import pytest

from conftest import run
from recorded import load

RECORDED = load("peak_memory")
CASES = {case["id"]: case for case in RECORDED["cases"]}
NEAR = 0.02  # share of the peak


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Returns the path of a config's model in a dtype; each is imported once."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def model(name, dtype):
        path = folder / f"{name}-{dtype}.json"
        if path not in made:
            config = folder / f"{name}-{dtype}.config.json"
            config.write_text(json.dumps(RECORDED["configs"][name] | {"torch_dtype": dtype}))
            assert run("import", "--from", "config", config, "-o", path).returncode == 0
            made[path] = True
        return path

    return model


@pytest.mark.parametrize("name", CASES)
def test_peak_is_within_two_percent_of_the_tracker(name, models, tmp_path):
    case = CASES[name]
    for part in ("plan", "run"):
        (tmp_path / f"{part}.yaml").write_text(case[part])
    plan, step = tmp_path / "plan.yaml", tmp_path / "run.yaml"
    result = run("check", models(case["model"], case["dtype"]), plan, "--run", step, "--costs", "--format", "json")
    assert result.returncode == 0, result.stdout
    memory = json.loads(result.stdout)["costs"]["memory"]
    assert abs(memory["active_bytes"] / case["active_bytes"] - 1) < NEAR, (memory["terms"], case["operation"])
    assert memory["peak"]["phase"] == case["phase"]
    assert sum(term["bytes"] for term in memory["terms"]) == memory["total"] == memory["active_bytes"]
    assert memory["active_bytes"] <= memory["reserved_bytes"]
