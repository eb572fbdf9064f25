"""A finding names the lengths of the sequence with which its plan is right: each of them is, and the one that was asked of is not."""

import json
import re

import pytest
from conftest import ROOT, run

CASE = ROOT / "tests/golden/diagnostics/walk-length-of-the-sequence-that-fits"


def findings(length):
    result = run("check", CASE / "model.json", CASE / "plan.yaml", "--sequence", length, "--format", "json")
    return [d for d in json.loads(result.stdout)["diagnostics"] if d["severity"] == "error"]


# On four gloo ranks under tpplan.torch (torch 2.13) 8 and 16 run right; at 12 and 14 torch raises "Cannot unflatten unevenly sharded
# tensor".
@pytest.mark.parametrize("length, fitting", [(12, [8, 16]), (14, [8, 16]), (10, [8, 16]), (20, [16, 24])])
def test_the_lengths_that_are_named_are_right_and_the_own_one_is_not(length, fitting):
    (finding,) = findings(length)
    assert finding["code"] == "TP5103" and finding["fails"] == "forward"
    assert [
        int(n) for n in re.search(r"sequences of ([\d or]+) this plan is right", finding["help"])[1].split(" or ")
    ] == fitting
    assert all(findings(n) == [] for n in fitting)


def test_where_no_length_mends_none_is_named(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text((CASE / "plan.yaml").read_text().replace(", output_layouts: Replicate}", "}"))
    result = run("check", CASE / "model.json", plan, "--format", "json")
    assert result.returncode == 1 and b"sequences of" not in result.stdout
