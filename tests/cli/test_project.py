"""`tpplan check` without a model and a plan: what `checks` of .tpplan.yaml names, as one report."""

import json
import os
import subprocess

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
def test_every_model_is_checked_with_every_plan_on_every_mesh(project, folder):
    result = check(project, ALL, folder=folder)
    assert result.returncode == 0, result
    assert result.stdout.decode().splitlines() == [
        "model.json plans/a.yaml on tp=2: fine",
        "model.json plans/a.yaml on tp=4: fine",
        "model.json plans/b.yaml on tp=2: fine",
        "model.json plans/b.yaml on tp=4: fine",
        "of some checks operations, gradients and collectives were not checked: the model file has no operations; models of torch and "
        "transformers are written with theirs: python -m tpplan.export --transformers NAME --batch B --sequence S -o model.json",
        "4 checks: 4 fine, 0 wrong",
    ]


def test_without_a_mesh_the_plan_has_its_own(project):
    result = check(
        project, "checks: [{model: model.json, plan: plans/a.yaml}, {model: model.json, plan: [plans/b.yaml]}]\n"
    )
    assert result.stdout.decode().splitlines()[-1] == "2 checks: 2 fine, 0 wrong"


def test_the_worst_status_counts_and_places_are_from_the_projects_folder(project):
    (project / "plans" / "b.yaml").write_text(plan_text({"wx": "colwise", "wq": "colwise"}))
    result = check(project, ALL, folder="below")
    assert (result.returncode, codes(result)) == (1, ["TP4001"])  # once, for both meshes
    assert b"plans/b.yaml:5:" in result.stdout and b"on tp=" not in result.stdout.split(b"a.yaml on")[0]
    assert result.stdout.decode().splitlines()[-1] == "4 checks: 2 fine, 2 wrong"
    annotation = check(project, ALL, "--format", "github", folder="below").stdout
    assert annotation.startswith(b"::error file=plans/b.yaml,line=5,") and annotation.count(b"::error") == 1


def test_a_finding_of_some_meshes_says_which(project):
    result = check(project, ALL.replace("tp=4", "tp=3"))
    assert (result.returncode, set(codes(result))) == (1, {"TP5001"})
    assert b"note: on tp=3" in result.stdout
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
def test_what_is_wrong_with_an_entry_has_its_place(project, text, code, place):
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
def test_the_schema_refuses_what_the_program_refuses(project, value):
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
def test_what_is_not_there_is_a_finding(project, text, code, status):
    result = check(project, text)
    assert (result.returncode, codes(result)) == (status, [code]), result


def test_the_version_that_is_wanted_may_be_a_least_one(project):
    assert check(project, ALL + 'required_version: ">=0.0.1"\n').returncode == 0


def test_without_checks_a_model_and_a_plan_are_needed(project):
    result = check(project, "")
    assert result.returncode == 2 and b"no `checks` in a .tpplan.yaml" in result.stderr
    result = check(project, ALL, "model.json")
    assert result.returncode == 2 and b"PLAN is required" in result.stderr
    result = check(project, ALL, "--fix")
    assert result.returncode == 2 and b"--fix is for one plan" in result.stderr


def test_the_hook_needs_no_arguments(project):
    check(project, ALL)
    hook = [ROOT / "tools" / "check-plans", "plans/a.yaml"]
    done = subprocess.run(hook, cwd=project, capture_output=True, env=os.environ | {"TPPLAN": PROGRAM})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, b"4 checks: 4 fine, 0 wrong")
