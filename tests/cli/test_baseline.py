"""`tpplan check --baseline`: what was known when the file was written is neither shown nor counted, and nothing else."""

import json

import jsonschema
import pytest
from conftest import ROOT, codes, linear_model, plan_text, run, write

# Warnings: large parameters without a rule, and neighbours that do not fit. `no_such` is an error.
MODEL = linear_model(wq=[16, 8], wk=[16, 8], big=[4096, 4096], bigger=[8192, 4096])
PLAN = plan_text({"wk": "colwise"})
WRONG_PLAN = plan_text({"wk": "colwise", "no_such": "colwise"})
SCHEMA = json.loads((ROOT / "schemas" / "baseline.schema.json").read_text())


@pytest.fixture
def known(tmp_path):
    """A folder with a model, a plan that has warnings, and the baseline of them."""
    write(tmp_path, MODEL, PLAN)
    assert make_known(tmp_path) == ["TP4006", "TP5150", "TP5152"]
    return tmp_path


def check(folder, *flags, plan="plan.yaml", baseline="known.json"):
    return run("check", "model.json", plan, "--baseline", baseline, "--strict", *flags, cwd=folder)


def make_known(folder):
    """The codes of what is known from now on."""
    first = run("check", "model.json", "plan.yaml", "--strict", cwd=folder)
    assert first.returncode == 1
    written = check(folder, "--write-baseline")
    assert written.returncode == 0 and codes(written) == [], written
    baseline = json.loads((folder / "known.json").read_text())
    jsonschema.validate(baseline, SCHEMA)
    assert f"{len(codes(first))} finding" in written.stdout.decode().splitlines()[-1]
    assert sorted(entry["code"] for entry in baseline["findings"]) == sorted(codes(first))
    return sorted(codes(first))


def test_known_findings_are_not_shown_and_not_counted(known):
    result = check(known)
    assert result.returncode == 0 and codes(result) == []
    assert "3 errors of known.json not shown" in result.stdout.decode()


def test_what_is_known_is_known_under_another_severity(known):
    result = run("check", "model.json", "plan.yaml", "--baseline", "known.json", cwd=known)
    assert result.returncode == 0 and codes(result) == []
    said = result.stdout.decode()
    assert "3 warnings of known.json not shown" in said and said.startswith("Test on [tp=4]: ")


def test_they_are_known_where_lines_above_them_come_and_go(known):
    (known / "plan.yaml").write_text("# A word about it.\n\n" + PLAN)
    assert check(known).returncode == 0


def test_a_new_finding_is_shown_alone(known):
    (known / "plan.yaml").write_text(PLAN.replace("tp_plan:", "axis: tp\nfsdp: {axis: no_such}\ntp_plan:"))
    result = check(known)
    assert result.returncode == 1 and codes(result) == ["TP3006"] and b"no longer there" not in result.stdout
    (known / "plan.yaml").write_text(plan_text({"wk": "colwise", "wq": "colwise"}))
    result = check(known)
    assert result.returncode == 1 and codes(result) == ["TP5150"] and b"`wq`" in result.stdout


def test_known_errors_are_not_counted_and_what_they_hide_is_said(known):
    (known / "plan.yaml").write_text(WRONG_PLAN)
    assert check(known).returncode == 1
    assert make_known(known) == ["TP4001"]
    result = check(known)
    assert result.returncode == 0 and codes(result) == []
    assert result.stdout.decode().splitlines() == [
        "known errors keep what follows from them from being judged: it is found when they are mended",
        "1 error of known.json not shown",
    ]


def test_entries_whose_finding_is_gone_are_counted(known):
    (known / "plan.yaml").write_text(plan_text({"wk": "colwise", "big*": "replicate"}))
    result = check(known)
    assert result.returncode == 0
    assert "1 finding of known.json no longer there: --write-baseline leaves it out" in result.stdout.decode()
    assert check(known, "--write-baseline").returncode == 0
    assert [entry["code"] for entry in json.loads((known / "known.json").read_text())["findings"]] == [
        "TP5150",
        "TP5152",
    ]
    assert b"no longer there" not in check(known).stdout


@pytest.mark.parametrize("form", ["json", "jsonl", "sarif", "github", "gitlab", "junit", "markdown"])
def test_no_format_has_known_findings_and_the_count_stands_on_standard_error(known, form):
    result = check(known, "--format", form)
    assert result.returncode == 0 and "TP5150" not in result.stdout.decode()
    assert " of known.json not shown" in result.stderr.decode()


def test_what_keeps_an_input_from_being_read_is_never_known(known):
    before = (known / "known.json").read_bytes()
    (known / "plan.yaml").write_text("tp_plan: {a: colwise")
    assert check(known).returncode == 2
    written = check(known, "--write-baseline")
    assert written.returncode == 2 and b"known.json is left as it is" in written.stdout
    assert (known / "known.json").read_bytes() == before


def test_compile_takes_no_baseline(known):
    result = run("compile", "model.json", "plan.yaml", "--baseline", "known.json", cwd=known)
    assert result.returncode == 2 and b"--baseline" in result.stderr


def test_a_project_names_its_baseline(known):
    (known / ".git").mkdir()
    (known / "below").mkdir()
    settings = "baseline: known.json\nchecks: [{model: model.json, plan: plan.yaml, mesh: [tp=2, tp=4]}]\n"
    (known / ".tpplan.yaml").write_text(settings)
    for folder in (".", "below"):
        result = run("check", cwd=known / folder)
        assert result.returncode == 0 and b"2 checks: 2 fine, 0 wrong" in result.stdout, result
        assert codes(run("check", known / "model.json", known / "plan.yaml", cwd=known)) != []
    assert run("check", "--write-baseline", cwd=known / "below").returncode == 0
    (known / "plan.yaml").write_text(plan_text({"nor_this": "colwise"}))
    assert codes(run("check", cwd=known)) == ["TP4001"]


WRONG = {
    "no JSON": ("{", "TP1003"),
    "a list": ("[]", "TP1003"),
    "no format": ('{"findings": []}', "TP3002"),
    "another format": ('{"format": "tpplan.plan/1", "findings": []}', "TP3003"),
    "findings that are no list": ('{"format": "tpplan.baseline/1", "findings": {}}', "TP3003"),
    "a finding that is none": ('{"format": "tpplan.baseline/1", "findings": [1]}', "TP3003"),
    "a finding without a fingerprint": (
        '{"format": "tpplan.baseline/1", "findings": [{"file": "", "code": "", "message": ""}]}',
        "TP3002",
    ),
    "a fingerprint that is a number": (
        '{"format": "tpplan.baseline/1", "findings": [{"file": "", "code": "", "message": "", "fingerprint": 1}]}',
        "TP3003",
    ),
    "a fingerprint twice": (
        '{"format": "tpplan.baseline/1", "findings": ['
        + ", ".join(['{"file": "", "code": "", "message": "", "fingerprint": "a"}'] * 2)
        + "]}",
        "TP3003",
    ),
    "another member": ('{"format": "tpplan.baseline/1", "findings": [], "more": 1}', "TP3004"),
    "another member of a finding": (
        '{"format": "tpplan.baseline/1", "findings": [{"file": "", "code": "", "message": "", "fingerprint": "", "a": 1}]}',
        "TP3004",
    ),
}


@pytest.mark.parametrize(("text", "code"), WRONG.values(), ids=WRONG)
def test_a_wrong_baseline_is_refused_with_its_place(known, text, code):
    (known / "known.json").write_text(text)
    result = check(known)
    assert result.returncode in (1, 2) and codes(result) == [code], result
    assert result.stderr.decode().startswith("known.json:1:") and not result.stdout


def test_a_baseline_that_is_not_there_is_refused(known):
    result = check(known, baseline="no.json")
    assert result.returncode == 2 and codes(result) == ["TP1001"]


def test_a_baseline_is_no_input(known):
    plan = (known / "plan.yaml").read_bytes()
    result = check(known, "--write-baseline", baseline="plan.yaml")
    assert result.returncode == 2 and (known / "plan.yaml").read_bytes() == plan


def test_to_write_one_it_has_a_name(known):
    result = run("check", "model.json", "plan.yaml", "--write-baseline", cwd=known)
    assert result.returncode == 2 and b"--baseline FILE" in result.stderr


def test_the_schema_of_settings_has_the_formats_of_findings():
    settings = json.loads((ROOT / "schemas" / "settings.schema.json").read_text())
    help_text = " ".join(run("check", "--help").stdout.decode().split())
    formats = help_text.split("--format FORMAT:{")[1].split("}")[0].replace(" ", "").split(",")
    assert settings["properties"]["format"]["enum"] == formats
