"""Plans shipped with transformers that fail: the table of tests/README.md, with the commands above it."""

import json
import re
import shlex

import bridge
import pytest
from conftest import ROOT, run

bridge.needs("torch", "transformers")

from tpplan.export import __main__ as export_main  # noqa: E402

README = (ROOT / "tests/README.md").read_text()
ROWS = re.findall(r"^\| `([^`]+)` \| `(TP\d{4})` \| (apply|forward|output|gradient) \|", README, re.M)


def test_table_lists_the_plans():
    assert len(ROWS) >= 10


@pytest.mark.parametrize("model, code, fails", ROWS, ids=[row[0].split()[0] for row in ROWS])
def test_wrong_shipped_plan_is_found_by_default(model, code, fails, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(model)
    graph, plan = str(tmp_path / "model.json"), str(tmp_path / "plan.yaml")
    export_main.main(["--transformers", *arguments, "--mode", "train", "-o", graph])
    kwargs = [word for word in arguments if word not in ("--device", "cpu")]
    export_main.main(["--plan-from", "transformers", *kwargs, "-o", plan])
    result = run("check", graph, plan, "--format", "json")
    assert result.returncode == 1
    findings = json.loads(result.stdout)["diagnostics"]
    assert (code, fails) in {(finding["code"], finding.get("fails")) for finding in findings}


def test_dots3_note_plan_is_right_with_one_rotary_size(tmp_path, monkeypatch):
    """With the published sizes. On two real ranks transformers runs this plan, and the one of the table fails."""
    monkeypatch.chdir(ROOT)
    graph, plan = str(tmp_path / "model.json"), str(tmp_path / "plan.yaml")
    arguments = ["transformers", "dots3_note_text", "--kwargs", '{"num_hidden_layers": 3}']
    export_main.main(["--" + arguments[0], *arguments[1:], "--mode", "train", "-o", graph])
    export_main.main(["--plan-from", *arguments, "-o", plan])
    result = run("check", graph, plan, "--format", "json")
    assert result.returncode == 0 and not [d for d in json.loads(result.stdout)["diagnostics"] if "fails" in d]
