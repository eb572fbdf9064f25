"""A command in a fork (fork_server.cc), as most tests start it, matches the command in a new process."""

import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest
from conftest import EXECUTOR, PROGRAM, linear_model, plan_text, write
from forked import SERVERS, run_forked

SERVER = {
    program: str(pathlib.Path(PROGRAM).parent / "tests" / name)
    for program, name in ((PROGRAM, "tpplan_forks"), (EXECUTOR, "tpplan_exec_forks"))
}
GOOD, WRONG = plan_text({"wq": "colwise"}), plan_text({"wx": "colwise"})
# Commands, and their standard input.
RUNS = [
    ("compile model.json plan.yaml", b""),
    ("compile model.json wrong.yaml", b""),
    ("check model.json - --color always", WRONG.encode()),
    ("compile - plan.yaml", b""),
    ("compile absent.json plan.yaml", b""),
    ("fmt -", GOOD.encode()),
    ("fmt -", b"# " + b"x" * (1 << 20)),
    ("show", b""),
    ("--help", b""),
    ("nothing", b""),
    ("schema plan", b""),
    ("check model.json plan.yaml --no-config -v", b"unread" * 100_000),
]


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, linear_model(wq=[16, 8]), GOOD)
    (tmp_path / "wrong.yaml").write_text(WRONG)
    return tmp_path


def both(folder, program, words, stdin=b"", **variables):
    """Status, output and errors, which are identical in both."""
    arguments = {"input": stdin, "cwd": folder, "env": {"PATH": os.environ["PATH"], **variables}, "timeout": 60}
    started = subprocess.run([program, *words], capture_output=True, **arguments)
    forked = run_forked(SERVER[program], [program, *words], **arguments)
    started, forked = ((r.returncode, r.stdout, r.stderr) for r in (started, forked))
    if "-v" not in words:  # which prints the time
        assert started == forked
    assert (started[0], len(started[2].splitlines())) == (forked[0], len(forked[2].splitlines()))
    return started


@pytest.mark.parametrize("line, stdin", RUNS, ids=[f"{line} {len(stdin)}" for line, stdin in RUNS])
def test_fork_matches_a_new_process(line, stdin, folder):
    both(folder, PROGRAM, line.split(), stdin)


def test_commands_end_with_every_status(folder):
    assert {both(folder, PROGRAM, line.split(), stdin)[0] for line, stdin in RUNS[:6]} >= {0, 1, 2}


def test_environment_and_directory_are_those_of_the_command(folder):
    assert b'"check_name"' in both(folder, PROGRAM, ["check", "model.json", "wrong.yaml"], TPPLAN_FORMAT="gitlab")[1]
    (folder / ".tpplan.yaml").write_text("format: github\n")
    assert both(folder, PROGRAM, ["check", "model.json", "wrong.yaml"])[1].startswith(b"::error ")
    assert not both(folder / "..", PROGRAM, ["check", f"{folder}/model.json", f"{folder}/wrong.yaml"])[1].startswith(
        b"::error "
    )


def test_executor_fork_matches_a_new_process(folder):
    assert (
        subprocess.run([PROGRAM, "compile", "model.json", "plan.yaml", "-o", "manifest.json"], cwd=folder).returncode
        == 0
    )
    assert both(folder, EXECUTOR, ["run", "manifest.json", "--quiet", "--iterations", "1"])[0] == 0
    assert both(folder, EXECUTOR, ["load", "absent.json", "--weights", "absent"])[0] == 2


def test_arguments_may_be_invalid_utf8(folder):
    name = b"\xff\xfe.yaml"
    (pathlib.Path(os.fsdecode(bytes(folder))) / os.fsdecode(name)).write_text(GOOD)
    assert both(folder, PROGRAM, ["compile", "model.json", os.fsdecode(name)])[0] == 0


def test_timeout_ends_a_command_and_the_next_one_starts(folder):
    os.mkfifo(folder / "nobody-writes")
    with pytest.raises(subprocess.TimeoutExpired):
        run_forked(SERVER[PROGRAM], [PROGRAM, "fmt", str(folder / "nobody-writes")], timeout=0.5)
    assert both(folder, PROGRAM, ["fmt", "--check", "plan.yaml"])[0] in (0, 1)


def kill_child_of(process):
    """Waits for a child of this process, and kills it."""
    while True:
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                number, _, rest = stat.read_text().partition(" (")
            except OSError:  # that one has ended
                continue
            if int(rest.rpartition(")")[2].split()[1]) == process:
                return os.kill(int(number), signal.SIGKILL)
        time.sleep(0.02)


def test_fatal_signal_is_the_status(folder):
    os.mkfifo(folder / "pipe")
    run_forked(SERVER[PROGRAM], [PROGRAM, "schema", "plan"])
    threading.Thread(target=kill_child_of, args=[SERVERS[SERVER[PROGRAM]].pid], daemon=True).start()
    assert run_forked(SERVER[PROGRAM], [PROGRAM, "fmt", str(folder / "pipe")]).returncode == -signal.SIGKILL
