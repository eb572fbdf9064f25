"""`tpplan check --watch`: the check is repeated after a change of one of its files, with the changed settings."""

import os
import queue
import signal
import subprocess
import threading

import pytest
from conftest import PROGRAM, codes, linear_model, plan_text, run, write

MODEL = linear_model(wq=[16, 8], wk=[16, 8])
RIGHT, WRONG = plan_text({"wq": "colwise_gather_output"}), plan_text({"no_such": "colwise"})


class Watching:
    """The running program: `next()` waits for a check and returns (exit status, watched files, standard output)."""

    def __init__(self, folder, *words):
        variables = {k: v for k, v in os.environ.items() if not k.startswith("TPPLAN_")}
        self.process = subprocess.Popen(
            [PROGRAM, "check", *words, "--watch"],
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        self.output, self.ends = b"", queue.Queue()
        threading.Thread(target=self.read_errors, daemon=True).start()

    def read_errors(self):
        for line in self.process.stderr:
            self.ends.put(line.decode())

    def next(self):
        words = self.ends.get(timeout=30).split()
        assert words[:2] == ["exit", "status"] and words[-2:] == ["to", "stop"], words
        os.set_blocking(self.process.stdout.fileno(), False)
        said = self.process.stdout.read() or b""
        return int(words[2].rstrip(";")), int(words[3]), said.decode()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10)
        return self.process.returncode


@pytest.fixture
def watch(tmp_path):
    started = []

    def start(*words):
        started.append(Watching(tmp_path, *words))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        one.process.stdout.close()


def replace(path, text):
    """Replaces a file as editors do."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


def test_changed_plan_is_checked_again_until_a_signal(tmp_path, watch):
    write(tmp_path, MODEL, WRONG)
    watching = watch("model.json", "plan.yaml")
    status, files, said = watching.next()
    assert (status, files) == (1, 2) and "error[TP4001]" in said
    (tmp_path / "plan.yaml").write_text(RIGHT)
    status, files, said = watching.next()
    assert (status, files) == (0, 2) and said == run("check", "model.json", "plan.yaml", cwd=tmp_path).stdout.decode()
    replace(tmp_path / "plan.yaml", WRONG)
    assert watching.next()[0] == 1
    replace(tmp_path / "model.json", "{}")
    assert watching.next()[0] == 2
    assert watching.end() == -signal.SIGINT


def test_deleted_file_is_waited_for(tmp_path, watch):
    write(tmp_path, MODEL, RIGHT)
    watching = watch("model.json", "plan.yaml")
    assert watching.next()[0] == 0
    (tmp_path / "plan.yaml").unlink()
    status, _, said = watching.next()
    assert status == 2 and "TP1001" in said
    (tmp_path / "plan.yaml").write_text(RIGHT)
    assert watching.next()[0] == 0


def test_settings_are_watched_and_read_again(tmp_path, watch):
    write(tmp_path, MODEL, plan_text({"wq": "colwise"}))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".tpplan.yaml").write_text("strict: false\n")
    watching = watch("model.json", "plan.yaml")
    assert watching.next()[:2] == (0, 3)
    (tmp_path / ".tpplan.yaml").write_text("strict: true\n")
    assert watching.next()[:2] == (1, 3)
    (tmp_path / ".tpplan.yaml").write_text("strickt: true\n")
    process = watching.process
    assert "TP3004" in watching.ends.get(timeout=30)
    process.kill()


def test_all_files_of_a_project_are_watched_including_new_ones(tmp_path, watch):
    write(tmp_path, MODEL, RIGHT)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".tpplan.yaml").write_text("checks: [{model: model.json, plan: '*.yaml', mesh: [tp=2]}]\n")
    watching = watch()
    assert watching.next()[:2] == (0, 3)
    (tmp_path / "other.yaml").write_text(WRONG)
    status, files, said = watching.next()
    assert (status, files) == (1, 4) and "other.yaml" in said


def test_files_of_measured_steps_are_watched(tmp_path, watch):
    write(tmp_path, MODEL, RIGHT)
    steps = tmp_path / "steps"
    steps.mkdir()
    for name in ("model.json", "plan.yaml"):
        (steps / name).write_bytes((tmp_path / name).read_bytes())
    (steps / "run.yaml").write_text("format: tpplan.run/1\n")
    entry = "{model: steps/model.json, plan: steps/plan.yaml, run: steps/run.yaml, seconds: 2}"
    (tmp_path / "topology.yaml").write_text(
        "format: tpplan.topology/1\npeak_flops: {float32: 1e12}\nlinks: [{bandwidth: 1e9, latency: 1e-6}]\n"
        f"calibrate: [{entry}]\n"
    )
    watching = watch("model.json", "plan.yaml", "--topology", "topology.yaml")
    assert watching.next()[1] == 6
    replace(steps / "run.yaml", "format: tpplan.run/1\nbatch: 2\n")
    assert watching.next()[1] == 6


def test_watch_ends_on_a_closed_pipe(tmp_path, watch):
    write(tmp_path, MODEL, RIGHT)
    watching = watch("model.json", "plan.yaml")
    watching.next()
    watching.process.stdout.close()
    assert watching.process.wait(30) == 0


@pytest.mark.parametrize("words", [("-", "plan.yaml"), ("model.json", "-")])
def test_standard_input_is_rejected(tmp_path, words):
    write(tmp_path, MODEL, RIGHT)
    result = run("check", *words, "--watch", cwd=tmp_path, stdin=RIGHT.encode())
    assert result.returncode == 2 and b"standard input can be read only once" in result.stderr and codes(result) == []


@pytest.mark.parametrize("other", [("--fix",), ("--baseline", "known.json", "--write-baseline")])
def test_flags_that_write_are_rejected(tmp_path, other):
    write(tmp_path, MODEL, RIGHT)
    result = run("check", "model.json", "plan.yaml", "--watch", *other, cwd=tmp_path)
    assert result.returncode == 2 and b"excludes" in result.stderr
