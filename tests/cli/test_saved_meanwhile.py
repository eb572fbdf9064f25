"""A plan that the user saves during `--fix` or `fmt` keeps the saved text, and no output reports it as written."""

import fcntl
import os
import pathlib
import resource
import subprocess
import time

import pytest

from conftest import PROGRAM, linear_model, plan_text, write

SAVED = plan_text({"wq": "colwise"}) + "# saved meanwhile\n"


def is_asleep(process):
    return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def started_behind_a_full_pipe(*words):
    """The program, and the read end of its standard output: it blocks before its first byte."""
    reader, writer = os.pipe()
    room = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, b"x" * room)
    process = subprocess.Popen([PROGRAM, *map(str, words)], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    asleep = 0
    while asleep < 20:
        time.sleep(0.02)
        assert process.poll() is None
        asleep = asleep + 1 if is_asleep(process) else 0
    return process, open(reader, "rb")


def test_fix_preserves_a_plan_saved_in_the_meantime(tmp_path):
    model, plan = write(tmp_path, linear_model(wq=[16, 8]), plan_text({"w_q": "colwise"}))
    process, output = started_behind_a_full_pipe("check", "--fix", model, plan)
    plan.write_text(SAVED)
    output.read()
    said = process.stderr.read().decode()
    assert process.wait(60) == 2 and plan.read_text() == SAVED
    assert "error[TP1009]: cannot write the output: it has changed since it was read" in said and "  = help: " in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "plan.yaml"]


@pytest.mark.parametrize("bytes_", [0, 10])
def test_fmt_reports_no_plan_that_it_could_not_write(tmp_path, bytes_):
    loose = plan_text({"wq": "colwise"}).replace("mesh: {tp: 4}", "mesh: {tp:   4}")
    plan = tmp_path / "plan.yaml"
    plan.write_text(loose)
    result = subprocess.run(
        [PROGRAM, "fmt", plan],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_)),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 2 and plan.read_text() == loose
    assert result.stdout == "" and "error[TP1009]" in result.stderr
