"""Each mistake of slips_*.py gets a diagnostic with a place, a reason and a fix."""

import json
import re
import shlex

import pytest

from conftest import run
from project import KERAS_PLAN, PLAN, edited, write_project
from slips_lines import LINES
from slips_matching import MATCHING
from slips_meaning import MEANING
from slips_syntax import SYNTAX
from slips_values import VALUES

MISTAKES = [*SYNTAX, *VALUES, *MATCHING, *MEANING]
PLANS = {"plan.yaml": ("model.json", PLAN), "keras.yaml": ("keras.json", KERAS_PLAN)}
WIDTH = 80


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return right_project(tmp_path_factory.mktemp("project"))


def right_project(folder):
    write_project(folder)
    assert run("compile", "model.json", "plan.yaml", "-o", "manifest.json", cwd=folder).returncode == 0
    return folder


def words(finding):
    notes = [note["text"] for note in finding["notes"]]
    return " ".join([finding["message"], finding.get("label", ""), *notes])


def missing_of_mistake(mistake, project):
    """Required words that the diagnostics of an edited plan lack."""
    model, plan = PLANS[mistake.file]
    (project / "edited.yaml").write_bytes(edited(plan, mistake.edits).encode())
    mesh = ["--mesh", mistake.mesh] if mistake.mesh else []
    result = run("check", "--format", "json", model, "edited.yaml", *mesh, cwd=project)
    findings = json.loads(result.stdout)["diagnostics"]
    if not findings:
        return ["everything"]
    missing = [f"one finding of {len(findings)}"] if len(findings) > mistake.findings else []
    rated = [missing_of_finding(mistake, finding) for finding in findings]
    return missing + min(rated, key=len)


def missing_of_finding(mistake, finding):
    missing = []
    if mistake.line and finding["place"].get("line") != mistake.line:
        missing.append(f"line {mistake.line}, not {finding['place'].get('line')}")
    if not re.search(mistake.reason, words(finding)):
        missing.append(f"reason {mistake.reason}: {words(finding)}")
    if not re.search(mistake.remedy, finding.get("help", "")):
        missing.append(f"remedy {mistake.remedy}: {finding.get('help')}")
    return missing


def missing_of_line(line, project):
    for name, text in line.files.items():
        (project / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    result = run(*shlex.split(line.arguments), cwd=project)
    for name in line.files:
        (project / name).unlink()
    said = (result.stdout + result.stderr).decode()
    missing = [] if result.returncode == line.status else [f"status {line.status}, not {result.returncode}"]
    if not re.search(line.reason, said):
        missing.append(f"reason {line.reason}: {said}")
    if not re.search(line.remedy, said, re.DOTALL):
        missing.append(f"remedy {line.remedy}: {said}")
    return missing


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name.replace(" ", "-"))
def test_plan_mistake_has_place_reason_and_fix(mistake, project):
    assert missing_of_mistake(mistake, project) == []


@pytest.mark.parametrize("line", LINES, ids=lambda m: m.name.replace(" ", "-"))
def test_command_line_mistake_has_place_reason_and_fix(line, project):
    assert missing_of_line(line, project) == []


def test_correct_plans_have_no_diagnostics(project):
    for plan, (model, _) in PLANS.items():
        result = run("check", "--format", "json", model, plan, cwd=project)
        assert json.loads(result.stdout)["diagnostics"] == []
