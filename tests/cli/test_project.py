"""`tpplan check` without a model and a plan: all `checks` of .tpplan.yaml, as one report."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree

import jsonschema
import pytest
from conftest import PROGRAM, ROOT, codes, linear_model, plan_text, run, write


@pytest.fixture
def project(tmp_path):
    (tmp_path / "plans").mkdir()
    (tmp_path / "below").mkdir()
    (tmp_path / ".git").mkdir()
    write(tmp_path, linear_model(wq=[16, 8], wk=[16, 8]), plan_text({"wq": "colwise"}))
    (tmp_path / "plan.yaml").rename(tmp_path / "plans" / "a.yaml")
    (tmp_path / "plans" / "b.yaml").write_text(plan_text({"wq": "colwise", "wk": "colwise"}))
    return tmp_path


ALLOWED = "allow: [TP5150, TP5151, TP5152]\n"
ALL = 'checks: [{model: model.json, plan: "plans/*.yaml", mesh: [tp=2, tp=4]}]\n'


def check(project, text, *flags, folder="."):
    (project / ".tpplan.yaml").write_text(ALLOWED + text)
    return run("check", *flags, cwd=project / folder)


@pytest.mark.parametrize("folder", [".", "below"])
def test_every_model_plan_and_mesh_is_checked(project, folder):
    result = check(project, ALL, folder=folder)
    assert result.returncode == 0, result
    assert result.stdout.decode().splitlines() == [
        *(
            f"model.json plans/{plan}.yaml on tp={tp}: passed, operations, gradients and collectives not checked"
            for plan in "ab"
            for tp in (2, 4)
        ),
        "model.json: operations, gradients and collectives were not checked: the model file has no operations; export the model with "
        "its operations: python -m tpplan.export --transformers NAME --batch B --sequence S -o model.json",
        "4 checks: 4 passed, 0 failed",
    ]


@pytest.mark.parametrize("format", ("human", "json", "github", "markdown", "junit"))
def test_formats_name_every_check(project, format):
    (project / "plans" / "b.yaml").write_text(plan_text({"wx": "colwise", "wq": "colwise"}))
    text = check(project, ALL.replace("tp=4", "tp=8"), "--format", format).stdout.decode()
    for plan, mesh, result in (("a", 2, "passed"), ("a", 8, "passed"), ("b", 2, "1 error"), ("b", 8, "1 error")):
        name = rf'"model": *"model.json", *"plan": *"plans/{plan}.yaml", *"mesh": *"tp={mesh}"'
        if format != "json":
            name = f"model.json plans/{plan}.yaml on tp={mesh}"
        plain = re.sub(r"&#(\d+);", lambda code: chr(int(code[1])), text)
        assert re.search(rf"{name}[^:]*?\W(?s:.){{0,60}}?{result}", plain), plain


def test_junit_has_a_test_for_every_check(project):
    (project / "plans" / "b.yaml").write_text(plan_text({"wx": "colwise", "wq": "colwise"}))
    (suite,) = xml.etree.ElementTree.fromstring(check(project, ALL, "--format", "junit").stdout)
    names = {case.get("name"): case.find("failure") is not None for case in suite.findall("testcase")}
    assert [names[f"model.json plans/{plan}.yaml on tp=2"] for plan in "ab"] == [False, True]
    assert (suite.get("tests"), suite.get("failures")) == ("5", "3")


def test_checks_without_a_mesh_use_the_plans_mesh(project):
    result = check(
        project, "checks: [{model: model.json, plan: plans/a.yaml}, {model: model.json, plan: [plans/b.yaml]}]\n"
    )
    assert result.stdout.decode().splitlines()[-1] == "2 checks: 2 passed, 0 failed"


def test_worst_status_counts_and_places_are_project_relative(project):
    (project / "plans" / "b.yaml").write_text(plan_text({"wx": "colwise", "wq": "colwise"}))
    result = check(project, ALL, folder="below")
    assert (result.returncode, codes(result)) == (1, ["TP4001"])  # once, for both meshes
    assert b"plans/b.yaml:5:" in result.stdout and b"on tp=" not in result.stdout.split(b"a.yaml on")[0]
    assert result.stdout.decode().splitlines()[-1] == "4 checks: 2 passed, 2 failed"
    annotation = check(project, ALL, "--format", "github", folder="below").stdout
    assert annotation.startswith(b"::error file=plans/b.yaml,line=5,") and annotation.count(b"::error") == 1


def test_diagnostic_of_some_meshes_names_them(project):
    result = check(project, ALL.replace("tp=4", "tp=3"))
    assert (result.returncode, set(codes(result))) == (1, {"TP5001"})
    assert b"note: reported with mesh tp=3" in result.stdout
    assert json.loads(check(project, ALL.replace("tp=4", "tp=3"), "--format", "json").stdout)["diagnostics"]


@pytest.mark.parametrize(
    "text, code, place",
    [
        ("checks: {model: a}\n", "TP3003", "2:9"),
        ("checks: [{model: a, plan: b, mehs: c}]\n", "TP3004", "2:30"),
        ("checks: [{model: a}]\n", "TP3002", "2:10"),
        ("checks: [{model: a, plan: b, mesh: [tp]}]\n", "TP3003", "2:37"),
        ("checks: [{model: a, plan: []}]\n", "TP3003", "2:27"),
        ("required_version: 99.0.0\n", "TP3003", "2:19"),
        ("required_version: new\n", "TP3003", "2:19"),
    ],
)
def test_wrong_entry_has_its_place(project, text, code, place):
    result = check(project, text)
    assert result.returncode == 2 and f".tpplan.yaml:{place}: error[{code}]" in result.stderr.decode(), result.stderr


VALUES = [
    {"checks": [{"model": "model.json", "plan": ["plans/a.yaml"], "mesh": "tp=2"}]},
    {"required_version": ">=0.0.1", "strict": True, "max_replicated": "5%", "deny": ["TP4006"], "format": "github"},
    {"checks": {"model": "a"}},
    {"checks": [{"model": "a"}]},
    {"checks": [{"model": "a", "plan": []}]},
    {"checks": [{"model": "a", "plan": "b", "mehs": "tp=2"}]},
    {"checks": [{"model": "a", "plan": "b", "mesh": 2.5}], "unknown": 1},
    {"required_version": "new"},
    {"format": "xml"},
    {"strict": "yes"},
    {"deny": "TP4006"},
]


@pytest.mark.parametrize("value", VALUES, ids=json.dumps)
def test_schema_and_program_reject_the_same_entries(project, value):
    schema = json.loads((ROOT / "schemas" / "settings.schema.json").read_text())
    (project / ".tpplan.yaml").write_text(json.dumps(value))
    refused = b".tpplan.yaml" in run("fmt", "--check", "plans/a.yaml", cwd=project).stderr
    assert refused == (not jsonschema.Draft7Validator(schema).is_valid(value))


@pytest.mark.parametrize(
    "text, code, status",
    [
        ('checks: [{model: model.json, plan: "nope/*.yaml"}]\n', "TP1001", 2),
        ("checks: [{model: model.json, plan: nope.yaml}]\n", "TP1001", 2),
        ("checks: [{model: model.json, plan: plans/a.yaml, mesh: ep=2}]\n", "TP3006", 2),
    ],
)
def test_missing_files_are_diagnostics(project, text, code, status):
    result = check(project, text)
    assert (result.returncode, codes(result)) == (status, [code]), result


def test_required_version_may_be_a_minimum(project):
    assert check(project, ALL + 'required_version: ">=0.0.1"\n').returncode == 0


def test_model_and_plan_are_required_without_checks(project):
    result = check(project, "")
    assert result.returncode == 2 and b"no .tpplan.yaml here has `checks`" in result.stderr
    result = check(project, ALL, "model.json")
    assert result.returncode == 2 and b"PLAN is required" in result.stderr
    result = check(project, ALL, "--fix")
    assert result.returncode == 2 and b"--fix applies to one plan" in result.stderr


def test_hook_needs_no_arguments(project):
    check(project, ALL)
    hook = [ROOT / "tools" / "scripts" / "check-plans", "plans/a.yaml"]
    done = subprocess.run(hook, cwd=project, capture_output=True, env=os.environ | {"TPPLAN": PROGRAM})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, b"4 checks: 4 passed, 0 failed")
