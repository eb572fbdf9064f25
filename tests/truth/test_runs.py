"""Plans that really ran: `tpplan check` on the model with its operations says what happened (record_runs.py, data/README.md)."""

import json

import pytest
from conftest import run
from recorded import load
from run_cases import plan_text

RUNS = {"glob": "runs_own", "transformers": "runs_transformers"}


def checked(folder, dialect):
    """(case, exit status, findings) of every recorded plan."""
    recorded = load(RUNS[dialect])
    for number, model in enumerate(recorded["models"]):
        (folder / f"{number}.json").write_text(json.dumps(model))

    def check(numbered):
        number, case = numbered
        plan = folder / f"{number}.yaml"
        plan.write_text(plan_text(case["plan"], dialect, case["tp"]))
        result = run("check", folder / f"{case['file']}.json", plan, "--format", "json")
        return case, result.returncode, json.loads(result.stdout)["diagnostics"]

    return list(map(check, enumerate(recorded["cases"])))


@pytest.mark.parametrize("dialect", RUNS)
def test_no_plan_that_ran_right_is_refused(tmp_path, dialect):
    rows = checked(tmp_path, dialect)
    refused = [(case["mutation"], case["tp"], [d["message"] for d in found if d["severity"] == "error"])
               for case, status, found in rows if case["outcome"] == "ok" and status]  # fmt: skip
    assert not refused
    assert sum(case["outcome"] == "ok" for case, _, _ in rows) >= 60


FAILS = {"crash_apply": "apply", "crash_forward": "forward", "wrong_output": "output", "wrong_grad": "gradient", "crash_backward": "gradient"}
ORDER = ("apply", "forward", "output", "gradient")


# torch's attention for CPUs has no gradient for DTensors; the one for GPUs has.
ONLY_ON_CPU = "flash_attention_for_cpu_backward"


@pytest.mark.parametrize("dialect", RUNS)
def test_every_plan_that_failed_is_an_error_of_its_class(tmp_path, dialect):
    rows = [row for row in checked(tmp_path, dialect) if row[0]["outcome"] != "ok" and ONLY_ON_CPU not in row[0].get("error", "")]
    assert len(rows) >= 100
    missed = [(case["mutation"], case["tp"], case["outcome"]) for case, status, _ in rows if not status]
    assert not missed
    classes = [(case, min((d["fails"] for d in found if "fails" in d), key=ORDER.index, default=None)) for case, _, found in rows]
    other = [(case["mutation"], case["tp"], case["outcome"], fails) for case, fails in classes if fails != FAILS[case["outcome"]]]
    assert len(other) <= max(1, len(rows) // 200), other
