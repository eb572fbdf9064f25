"""Lost output is reported with exit status 2, except on a closed pipe."""

import os
import subprocess

import pytest
from conftest import EXECUTOR, PROGRAM, linear_model, plan_text, run, write

WEIGHTS = "model.safetensors"
PLANNER = [
    "show manifest.json",
    "show manifest.json --rank 0",
    "show manifest.json --chart",
    "diff manifest.json other.json",
    "lint model.json plan.yaml",
    "schema plan",
    "man",
    "completion bash",
    "explain TP4001",
    "explain model.json plan.yaml wq",
    "check model.json plan.yaml",
    "fmt --diff loose.yaml",
    "fmt --check loose.yaml",
    "--help",
    "--version",
    "check --help",
]
EXECUTED = [
    f"load manifest.json --weights {WEIGHTS}",
    f"verify manifest.json --weights {WEIGHTS}",
    "init manifest.json --seed 1",
    f"save manifest.json --weights {WEIGHTS} -o shards",
    "reshard manifest.json other.json --from saved --to moved",
    "run manifest.json --iterations 1",
    "doctor",
]
LINES = (
    [(PROGRAM, line) for line in PLANNER]
    + [(EXECUTOR, f"{line} --json") for line in EXECUTED]
    + [(EXECUTOR, line) for line in ("doctor", "man", "completion zsh", "--help")]
)


@pytest.fixture
def folder(tmp_path):
    model, plan = write(tmp_path, linear_model(wq=[16, 8]), plan_text({"wq": "colwise"}))
    (tmp_path / "loose.yaml").write_text("format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {wq: colwise}\n")
    (tmp_path / "manifest.json").write_bytes(run("compile", model, plan).stdout)
    (tmp_path / "other.json").write_bytes(run("compile", model, plan, "--mesh", "tp=2").stdout)
    for words in (
        ["init", "manifest.json", "--seed", "1", "--consolidated", WEIGHTS],
        ["save", "manifest.json", "--weights", WEIGHTS, "-o", "saved"],
    ):
        subprocess.run([EXECUTOR, *words], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    return tmp_path


def said_of(folder, program, line, stdout):
    result = subprocess.run(
        [program, *line.split()], cwd=folder, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60
    )
    return result.returncode, [words for words in result.stderr.splitlines() if "standard output" in words]


def test_plan_is_not_formatted_if_the_report_is_lost(folder):
    plan = folder / "loose.yaml"
    before = plan.read_bytes()
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, "fmt", plan], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2 and "loose.yaml is unchanged" in done.stderr
    assert plan.read_bytes() == before
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".tpplan")) == []
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [PROGRAM, "fmt", "--quiet", plan], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 0 and plan.read_bytes() != before


@pytest.mark.parametrize(
    ("program", "line"), LINES, ids=[f"{os.path.basename(program)} {line}" for program, line in LINES]
)
def test_full_disk_is_reported_and_a_closed_pipe_is_not(folder, program, line):
    name = os.path.basename(program)
    with open("/dev/full", "wb") as full:
        assert said_of(folder, program, line, full) == (
            2,
            [f"{name}: error: cannot write to standard output: No space left on device"],
        )
    if "-o" in line or "--to" in line:
        return  # they wrote their folder
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        assert said_of(folder, program, line, pipe) == (2, [])
