"""GitLab's Code Quality report: its fields, and unique, stable fingerprints."""

import json

import pytest

from conftest import linear_model, plan_text, write
from read_formats import check, check_text, described, many_findings
from test_formats import CASES


def issues(folder, model, plan, *flags):
    return json.loads(check_text(folder, model, plan, *flags, format="gitlab").stdout)


@pytest.mark.parametrize("case", CASES)
def test_every_issue_has_the_fields_that_gitlab_requires(tmp_path, case):
    model, plan, flags, _, count = CASES[case]
    found = issues(tmp_path, model, plan, *flags)
    assert len(found) == count
    for issue in found:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert isinstance(issue["description"], str) and issue["description"]
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert set(issue["location"]) == {"path", "lines"}
        assert issue["location"]["lines"]["begin"] >= 1


def test_fingerprints_are_unique(tmp_path):
    found = issues(tmp_path, *many_findings(300, 40))
    assert len({issue["fingerprint"] for issue in found}) == len(found) == 340


def test_fingerprints_are_stable_if_a_comment_is_added(tmp_path):
    model, plan = many_findings(5, 0)
    before = issues(tmp_path, model, plan)
    after = issues(tmp_path, model, "# why\n" + plan)
    assert [issue["fingerprint"] for issue in after] == [issue["fingerprint"] for issue in before]
    assert [i["location"]["lines"]["begin"] for i in after] == [i["location"]["lines"]["begin"] + 1 for i in before]


def test_fingerprints_match_sarif(tmp_path):
    model, plan = many_findings(5, 5)
    results = json.loads(check_text(tmp_path, model, plan, format="sarif").stdout)["runs"][0]["results"]
    assert [i["fingerprint"] for i in issues(tmp_path, model, plan)] == [
        r["partialFingerprints"]["tpplan/v1"] for r in results
    ]


def test_fingerprints_of_two_plans_differ(tmp_path):
    write(tmp_path, linear_model(w=[8, 8]), plan_text({"nothing": "colwise"}))
    (tmp_path / "other.yaml").write_text(plan_text({"nothing": "colwise"}))
    found = [
        json.loads(check("model.json", name, format="gitlab", cwd=tmp_path).stdout)[0]
        for name in ("plan.yaml", "other.yaml", "./plan.yaml")
    ]
    assert found[0]["fingerprint"] != found[1]["fingerprint"]
    assert found[0] == found[2], "a leading ./ is no part of a path in a repository"


def test_description_has_the_full_text_on_one_line(tmp_path):
    model, plan, *_ = CASES["one cause in 32 layers"]
    (finding,) = described(tmp_path, model, plan)
    (issue,) = issues(tmp_path, model, plan)
    (note,) = finding["notes"]
    place = note["place"]
    assert issue["description"] == (
        f"{finding['message']} ({finding['label']}); note: {note['text']} (model.json:{place['line']}:"
        f"{place['column']}); note: and 31 parameters more with the same cause; help: {finding['help']}"
    )
