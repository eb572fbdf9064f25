"""A diagnostic names the sequence lengths at which its plan is correct: at each the check passes, at the current one it fails."""

import json
import re

import pytest
from conftest import ROOT, run

CASE = ROOT / "tests/golden/diagnostics/walk-sequence-length-help"


def findings(length):
    result = run("check", CASE / "model.json", CASE / "plan.yaml", "--sequence", length, "--format", "json")
    return [d for d in json.loads(result.stdout)["diagnostics"] if d["severity"] == "error"]


# On four gloo ranks under tpplan.torch (torch 2.13) 8 and 16 are correct; at 12 and 14 torch raises "Cannot unflatten unevenly sharded
# tensor".
@pytest.mark.parametrize("length, fitting", [(12, [8, 16]), (14, [8, 16]), (10, [8, 16]), (20, [16, 24])])
def test_suggested_lengths_pass_and_the_current_one_fails(length, fitting):
    (finding,) = findings(length)
    assert finding["code"] == "TP5103" and finding["fails"] == "forward"
    assert [
        int(n)
        for n in re.search(r"use sequences of ([\d or]+) \(`--sequence`\): the plan passes", finding["help"])[1].split(
            " or "
        )
    ] == fitting
    assert all(findings(n) == [] for n in fitting)


def test_no_length_is_suggested_if_none_fixes_the_plan(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text((CASE / "plan.yaml").read_text().replace(", output_layouts: Replicate}", "}"))
    result = run("check", CASE / "model.json", plan, "--format", "json")
    assert result.returncode == 1 and b"sequences of" not in result.stdout
