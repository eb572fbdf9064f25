"""`tpplan check --baseline`: diagnostics listed in the file are neither shown nor counted; all others are."""

import json

import jsonschema
import pytest
from conftest import ROOT, codes, linear_model, plan_text, run, write

# Warnings: large parameters without a rule, and mismatched neighbours. `no_such` is an error.
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
    """Writes the baseline; returns its codes."""
    first = run("check", "model.json", "plan.yaml", "--strict", cwd=folder)
    assert first.returncode == 1
    written = check(folder, "--write-baseline")
    assert written.returncode == 0 and codes(written) == [], written
    baseline = json.loads((folder / "known.json").read_text())
    jsonschema.validate(baseline, SCHEMA)
    assert f"{len(codes(first))} diagnostic" in written.stdout.decode().splitlines()[-1]
    assert sorted(entry["code"] for entry in baseline["findings"]) == sorted(codes(first))
    return sorted(codes(first))


def test_known_diagnostics_are_not_shown_or_counted(known):
    result = check(known)
    assert result.returncode == 0 and codes(result) == []
    assert "3 errors of known.json not shown" in result.stdout.decode()


def test_severity_does_not_matter_for_the_baseline(known):
    result = run("check", "model.json", "plan.yaml", "--baseline", "known.json", cwd=known)
    assert result.returncode == 0 and codes(result) == []
    said = result.stdout.decode()
    assert "3 warnings of known.json not shown" in said and said.startswith("Test on [tp=4]: ")


def test_line_shifts_do_not_matter_for_the_baseline(known):
    (known / "plan.yaml").write_text("# A word about it.\n\n" + PLAN)
    assert check(known).returncode == 0


def test_only_new_diagnostics_are_shown(known):
    (known / "plan.yaml").write_text(PLAN.replace("tp_plan:", "axis: tp\nfsdp: {axis: no_such}\ntp_plan:"))
    result = check(known)
    assert result.returncode == 1 and codes(result) == ["TP3006"] and b"no longer reported" not in result.stdout
    (known / "plan.yaml").write_text(plan_text({"wk": "colwise", "wq": "colwise"}))
    result = check(known)
    assert result.returncode == 1 and codes(result) == ["TP5150"] and b"`wq`" in result.stdout


def test_known_rule_without_matches_does_not_stop_the_check(known):
    (known / "plan.yaml").write_text(WRONG_PLAN)
    assert check(known).returncode == 1
    assert make_known(known) == ["TP4001"]
    result = check(known)
    assert result.returncode == 1 and codes(result) == ["TP4006", "TP5150", "TP5152"]
    assert "1 error of known.json not shown" in result.stdout.decode()


def test_known_error_that_stops_the_check_is_an_error(known):
    (known / "plan.yaml").write_text(plan_text({"wk": "no_such_style", "big": "colwise"}))
    assert make_known(known) == ["TP3005"]
    result = check(known)
    assert result.returncode == 1 and codes(result) == ["TP4013"]
    assert "no_such_style" in result.stdout.decode()


def test_stale_entries_are_counted(known):
    (known / "plan.yaml").write_text(plan_text({"wk": "colwise", "big*": "replicate"}))
    result = check(known)
    assert result.returncode == 0
    assert "1 diagnostic of known.json no longer reported: --write-baseline removes it" in result.stdout.decode()
    assert check(known, "--write-baseline").returncode == 0
    assert [entry["code"] for entry in json.loads((known / "known.json").read_text())["findings"]] == [
        "TP5150",
        "TP5152",
    ]
    assert b"no longer reported" not in check(known).stdout


@pytest.mark.parametrize("form", ["json", "jsonl", "sarif", "github", "gitlab", "junit", "markdown"])
def test_other_formats_print_the_known_count_on_stderr(known, form):
    result = check(known, "--format", form)
    assert result.returncode == 0 and "TP5150" not in result.stdout.decode()
    assert " of known.json not shown" in result.stderr.decode()


def test_unreadable_inputs_are_never_in_the_baseline(known):
    before = (known / "known.json").read_bytes()
    (known / "plan.yaml").write_text("tp_plan: {a: colwise")
    assert check(known).returncode == 2
    written = check(known, "--write-baseline")
    assert written.returncode == 2 and b"known.json is unchanged" in written.stdout
    assert (known / "known.json").read_bytes() == before


def test_compile_rejects_a_baseline(known):
    result = run("compile", "model.json", "plan.yaml", "--baseline", "known.json", cwd=known)
    assert result.returncode == 2 and b"--baseline" in result.stderr


def test_project_sets_its_baseline(known):
    (known / ".git").mkdir()
    (known / "below").mkdir()
    settings = "baseline: known.json\nchecks: [{model: model.json, plan: plan.yaml, mesh: [tp=2, tp=4]}]\n"
    (known / ".tpplan.yaml").write_text(settings)
    for folder in (".", "below"):
        result = run("check", cwd=known / folder)
        assert result.returncode == 0 and b"2 checks: 2 passed, 0 failed" in result.stdout, result
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
def test_wrong_baseline_is_rejected_with_its_place(known, text, code):
    (known / "known.json").write_text(text)
    result = check(known)
    assert result.returncode in (1, 2) and codes(result) == [code], result
    assert result.stderr.decode().startswith("known.json:1:") and not result.stdout


def test_missing_baseline_is_rejected(known):
    result = check(known, baseline="no.json")
    assert result.returncode == 2 and codes(result) == ["TP1001"]


def test_baseline_does_not_overwrite_an_input(known):
    plan = (known / "plan.yaml").read_bytes()
    result = check(known, "--write-baseline", baseline="plan.yaml")
    assert result.returncode == 2 and (known / "plan.yaml").read_bytes() == plan


def test_write_baseline_needs_a_file_name(known):
    result = run("check", "model.json", "plan.yaml", "--write-baseline", cwd=known)
    assert result.returncode == 2 and b"--baseline FILE" in result.stderr


def test_settings_schema_lists_the_formats():
    settings = json.loads((ROOT / "schemas" / "settings.schema.json").read_text())
    help_text = " ".join(run("check", "--help").stdout.decode().split())
    formats = help_text.split("--format FORMAT:{")[1].split("}")[0].replace(" ", "").split(",")
    assert settings["properties"]["format"]["enum"] == formats
