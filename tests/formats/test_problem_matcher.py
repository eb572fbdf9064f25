"""The problem matcher of the repository: every human-readable diagnostic with a place is a problem with all its fields."""

import json
import re

import pytest

from conftest import ROOT, linear_model, plan_text, write
from read_formats import check, described
from test_formats import CASES

(MATCHER,) = json.loads((ROOT / ".github/actions/tpplan/problem-matcher.json").read_text())["problemMatcher"]
(PATTERN,) = MATCHER["pattern"]


def problems(text):
    """The problems that a runner finds, line by line: the last part of a pattern maps groups to fields."""
    found = []
    for line in text.splitlines():
        if match := re.search(PATTERN["regexp"], line):
            found.append({key: match[group] for key, group in PATTERN.items() if key != "regexp"})
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_diagnostic_with_a_place_is_a_problem(tmp_path, case):
    model, plan, flags, *_ = CASES[case]
    expected = [
        (
            finding["place"]["file"],
            str(finding["place"]["line"]),
            str(finding["place"]["column"]),
            finding["severity"],
            finding["code"],
        )
        for finding in described(tmp_path, model, plan, *flags)
        if finding["place"]
    ]
    text = check("model.json", "plan.yaml", *flags, format="human", cwd=tmp_path).stdout.decode()
    assert [tuple(p[key] for key in ("file", "line", "column", "severity", "code")) for p in problems(text)] == expected
    assert all(p["message"] for p in problems(text))


def test_source_lines_notes_and_summaries_are_no_problems(tmp_path):
    write(tmp_path, linear_model(w=[8, 8]), plan_text({"plan.yaml:1:1: error[TP4001]: x": "colwise"}))
    (problem,) = problems(check("model.json", "plan.yaml", format="human", cwd=tmp_path).stdout.decode())
    assert (problem["file"], problem["line"], problem["code"]) == ("plan.yaml", "5", "TP4001")


def test_name_with_blanks_and_colons_is_the_file(tmp_path):
    write(tmp_path, linear_model(w=[8, 8]), plan_text({}))
    (tmp_path / "my plan: 1.yaml").write_text(plan_text({"nothing": "colwise"}))
    (problem,) = problems(check("model.json", "my plan: 1.yaml", format="human", cwd=tmp_path).stdout.decode())
    assert problem["file"] == "my plan: 1.yaml"
