"""Golden cases: the output of each phase and of each diagnostic, word for word, one fact per folder.

PHASE/CASE has model.json, plan.yaml and expected.txt: the output of `tpplan compile --print PHASE` and its warnings. diagnostics/CASE has
the output of `tpplan check`, at 80 columns and without colour, and its exit status, suggest/CASE the same with --suggest; a run.yaml of
the case is its `--run`. schedule/CASE
and reads/CASE have the output of `tpplan-exec run` and `load` for the compiled case. With TPPLAN_UPDATE_GOLDEN=1 in the environment the
test writes expected.txt: read the difference."""

import os
import pathlib
import subprocess

import pytest

from conftest import EXECUTOR, NEIGHBOURS, linear_model, plan_text, run, write

HERE = pathlib.Path(__file__).resolve().parent
EXECUTED = {
    "schedule": ("run", "manifest.json"),
    "reads": ("load", "manifest.json", "--weights", "weights.safetensors"),
}
CHECKED = {"diagnostics": [], "suggest": ["--suggest"]}
PHASES = ("model", "graph", "plan", "matches", "shardings", "boundaries", "operations", "manifest")
CASES = sorted(str(path.parent.relative_to(HERE)) for path in HERE.glob("*/*/plan.yaml"))


def printed_by_executor(case, folder):
    """The output of `tpplan-exec --print` for a case's manifest, with initialised weights."""
    topic = case.split("/")[0]
    for name in ("model.json", "plan.yaml"):
        (folder / name).write_bytes((HERE / case / name).read_bytes())
    assert run("compile", "model.json", "plan.yaml", "--quiet", "-o", "manifest.json", cwd=folder).returncode == 0
    if topic == "reads":
        subprocess.run(
            [EXECUTOR, "init", "manifest.json", "--quiet", "--seed", "1", "--consolidated", "weights.safetensors"],
            cwd=folder,
            check=True,
            timeout=60,
        )
    command, *arguments = EXECUTED[topic]
    result = subprocess.run(
        [EXECUTOR, command, *arguments, "--print", topic], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def printed(case, folder):
    """The output of the program for a case."""
    topic = case.split("/")[0]
    if topic in EXECUTED:
        return printed_by_executor(case, folder)
    if topic in CHECKED:
        runs = ["--run", "run.yaml"] if (HERE / case / "run.yaml").exists() else []
        words = ["--color", "never", *CHECKED[topic], *runs]
        result = run("check", "model.json", "plan.yaml", *words, cwd=HERE / case)
        return result.stdout.decode() + f"exit status {result.returncode}\n"
    allowed = [word for code in NEIGHBOURS for word in ("--allow", code)]
    result = run(
        "compile", "model.json", "plan.yaml", "--print", topic, "--quiet", "--color", "never", *allowed, cwd=HERE / case
    )
    assert result.returncode == 0, result.stderr.decode()
    stderr = result.stderr.decode()
    return result.stdout.decode() + (f"\n{stderr}" if stderr else "")


@pytest.mark.parametrize("case", CASES)
def test_written_manifest_can_be_read(case, tmp_path):
    folder = HERE / case
    made = run("compile", folder / "model.json", folder / "plan.yaml", "--quiet", "-o", tmp_path / "m.json")
    assert made.returncode in (0, 1, 2)
    if made.returncode == 0:
        shown = run("show", tmp_path / "m.json")
        assert (shown.returncode, shown.stderr) == (0, b""), shown.stderr.decode()


@pytest.mark.parametrize("case", CASES)
def test_output_matches_the_expected_one(case, tmp_path):
    expected = HERE / case / "expected.txt"
    text = printed(case, tmp_path)
    if os.environ.get("TPPLAN_UPDATE_GOLDEN") == "1":
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


def test_every_topic_is_known_and_every_case_has_its_files():
    topics = {path.name for path in HERE.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert topics == {*PHASES, *EXECUTED, *CHECKED}
    for case in CASES:
        files = {path.name for path in (HERE / case).iterdir()}
        assert files - {"run.yaml"} == {"model.json", "plan.yaml", "expected.txt"}, case


@pytest.mark.parametrize(
    "mesh, spec",
    [
        ("{fsdp: 2, tp: 2}", "[[fsdp, tp], null]"),
        ("{fsdp: 2, tp: 2}", "[tp, fsdp]"),
        ('{"no": 2, "a b": 2}', '[null, ["no", "a b"]]'),
        ('{"...": 2, "Tp": 2}', '[["..."], "Tp"]'),
    ],
)
def test_printed_spec_is_valid_in_a_plan(tmp_path, mesh, spec):
    for _ in range(2):
        paths = write(tmp_path, linear_model(w=[8, 8]), plan_text({"w": f"{{spec: {spec}}}"}, mesh=mesh))
        result = run("compile", *paths, "--print", "shardings", "--quiet", "--color", "never")
        assert result.returncode == 0, result.stderr.decode()
        assert result.stdout.decode().startswith(f"w.weight: {spec} rule")
