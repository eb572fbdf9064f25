"""Plans that really ran: `tpplan check` on the model with its operations says what happened (record_runs.py, data/README.md)."""

import concurrent.futures
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

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(check, enumerate(recorded["cases"])))


@pytest.mark.parametrize("dialect", RUNS)
def test_no_plan_that_ran_right_is_refused(tmp_path, dialect):
    rows = checked(tmp_path, dialect)
    refused = [(case["mutation"], case["tp"], [d["message"] for d in found if d["severity"] == "error"])
               for case, status, found in rows if case["outcome"] == "ok" and status]  # fmt: skip
    assert not refused
    assert sum(case["outcome"] == "ok" for case, _, _ in rows) >= 60
