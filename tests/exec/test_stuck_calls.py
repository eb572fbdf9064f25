"""A system call that hangs (a file server is gone) ends the job within the deadline, on every backend: the error names rank, file and byte
of the stuck rank, not of a waiting one, and no partial file remains."""

import os
import pathlib
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from executor import EXECUTOR, LAUNCHERS, succeeds
from nccl_job import run_on_stand_in
from ranks import GRACE, mpirun, needs_mpi
from weights import compile_manifest, random_tensors, write_file

FAULTY = str(pathlib.Path(os.environ["TPPLAN"]).parent / "tests" / "libtpplan_faulty_calls.so")
DEADLINE = 3
TOGETHER = 3  # concurrent jobs, which wait most of the time
SHAPES = {"m.a": ("float32", (64, 48)), "m.b": ("bfloat16", (4, 4)), "m.c": ("float32", (5,))}
CUT = {"m.a": ["tp", None], "m.b": [None, "tp"]}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stuck")
    write_file(folder / "w.safetensors", random_tensors(SHAPES))
    compile_manifest(folder, SHAPES, CUT, {"tp": 3}, "m.json")
    compile_manifest(folder, SHAPES, {"m.a": [None, "tp"]}, {"tp": 3}, "n.json")
    succeeds("save", folder / "m.json", "--weights", folder / "w.safetensors", "-o", folder / "shards")
    return folder


def call(name, path="", number=1, kind="hang", rank=None):
    """Environment variables that make one call fail; a sanitizer's library need not be first."""
    which = f"name={name},path={path},number={number},kind={kind}" + (f",rank={rank}" if rank is not None else "")
    return {
        "LD_PRELOAD": FAULTY,
        "FAULTY_CALL": which,
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
        "TSAN_OPTIONS": "report_bugs=0",
    }


def alone(arguments, variables):
    """(status, standard error, seconds) of one process with all ranks; status None: the test ended it."""
    start = time.monotonic()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    job = subprocess.Popen(
        [EXECUTOR, *map(str, arguments), "--deadline", str(DEADLINE)],
        env=clean | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = job.communicate(timeout=DEADLINE + GRACE)[1]
    except subprocess.TimeoutExpired:
        job.kill()
        return None, job.communicate()[1], time.monotonic() - start
    return job.returncode, said, time.monotonic() - start


COMMANDS = {
    "load": "load DIR/m.json --weights DIR/w.safetensors",
    "verify": "verify DIR/m.json --weights DIR/w.safetensors",
    "save": "save DIR/m.json --weights DIR/w.safetensors -o OUT/folder --consolidated OUT/file",
    "reshard": "reshard DIR/m.json DIR/n.json --from DIR/shards --to OUT/folder",
}


def words(command, inputs, out):
    return COMMANDS[command].replace("DIR", str(inputs)).replace("OUT", str(out)).split()


# (command, call, end of the path, index of the call, its text in the message)
CASES = [
    ("load", "read", "m.json", 1, "a read at byte 0"),
    ("load", "open", "m.json", 1, "open"),
    ("reshard", "read", "n.json", 1, "a read at byte 0"),
    ("load", "open", "w.safetensors", 1, "open"),
    ("load", "pread", "w.safetensors", 1, "a read at byte 0"),  # of the header
    ("load", "pread", "w.safetensors", 3, "a read at byte "),
    ("load", "pread", "w.safetensors", 5, "a read at byte "),
    ("verify", "pread", "w.safetensors", 6, "a read at byte "),
    ("save", "open", "shard-00002-model-00001-of-00001.safetensors", 1, "open"),
    ("save", "pwrite", "shard-00002-model-00001-of-00001.safetensors", 2, "a write at byte "),
    ("save", "fsync", "shard-00001-model-00001-of-00001.safetensors", 1, "fsync"),
    ("save", "pwrite", "", 1, "a write at byte "),
    ("reshard", "pread", "shard-00001-model-00001-of-00001.safetensors", 3, "a read at byte "),
    ("reshard", "fsync", "", 1, "fsync"),
]


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(TOGETHER) as pool:
        yield pool


@pytest.fixture(scope="module")
def jobs(pool, inputs, tmp_path_factory):
    """{case: (folder, its future result)}"""
    found = {}
    for case in CASES:
        command, name, path, number, _ = case
        folder = tmp_path_factory.mktemp("alone")
        found[case] = folder, pool.submit(alone, words(command, inputs, folder), call(name, path, number))
    return found


@pytest.mark.parametrize("command, name, path, number, said_of_it", CASES)
def test_stuck_call_with_all_ranks_in_one_process(command, name, path, number, said_of_it, jobs):
    folder, job = jobs[command, name, path, number, said_of_it]
    status, said, seconds = job.result()
    assert status == 1, (status, said)
    assert "error[TP8016]: " in said and f"{said_of_it}" in said and "has not returned for " in said, said
    assert said.count("error[") == 1
    assert path in said.split(": error[")[0], said  # the file is the place of the diagnostic
    assert list(folder.iterdir()) == []
    assert seconds < DEADLINE + GRACE


def test_stuck_call_names_the_rank_and_its_step(inputs, tmp_path):
    path = "shard-00002-model-00001-of-00001.safetensors"
    _, said, _ = alone(words("save", inputs, tmp_path), call("pwrite", path, 1))
    assert "note: rank 1 failed at step " in said and "(save: writing " in " ".join(said.split()), said


@pytest.mark.parametrize("hours", [1, -1], ids=["on", "back"])
def test_clock_change_during_a_job_moves_no_deadline(hours, inputs, tmp_path):
    """No rank is late because of it, and a stuck rank is found as before."""
    clock = {"FAULTY_CLOCK": str(3600 * hours)}
    status, said, _ = alone(words("save", inputs, tmp_path), call("pread", "w.safetensors", 3, "slow") | clock)
    assert (status, said.count("error[")) == (0, 0), said
    (tmp_path / "hang").mkdir()
    status, said, seconds = alone(words("save", inputs, tmp_path / "hang"), call("pread", "w.safetensors", 3) | clock)
    assert status == 1 and "error[TP8016]: a read at byte " in said, said
    assert 0.8 * DEADLINE < seconds < DEADLINE + GRACE


def test_stuck_page_fault_is_found_by_a_waiting_rank(tmp_path):
    """A page fault registers no call: a thread that works without CPU time is stuck."""
    shapes = {"m.a": ("float32", (512, 512))}
    write_file(tmp_path / "w.safetensors", random_tensors(shapes))
    manifest = compile_manifest(tmp_path, shapes, {"m.a": ["tp", None]}, {"tp": 2})
    verify = ["verify", manifest, "--weights", tmp_path / "w.safetensors"]
    assert alone([*verify, "--threads", "1"], {})[0] == 0
    for number in range(2, 12):  # the first reads are of the header and of samples
        status, said, seconds = alone([*verify, "--threads", "1"], call("page", "w.safetensors", number))
        if status == 77:
            pytest.skip("userfaultfd is not allowed here")
        if status != 0:
            break
    assert status == 1 and "error[TP8016]: a page fault at byte " in said, said
    assert "failed at step " in said and "(verify: reading the source again)" in " ".join(said.split()), said
    assert seconds < DEADLINE + GRACE


def test_renamed_output_is_not_reported_as_missing(inputs, tmp_path):
    """The parent folder cannot be synced after the rename."""
    (tmp_path / "in").mkdir()
    status, said, _ = alone(words("save", inputs, tmp_path / "in"), call("open", "/in", 1, kind=5))
    text = " ".join(said.split())
    assert status == 1 and "error[TP8032]: Input/output error" in text, text
    assert f"{tmp_path}/in/folder is complete, but may not survive a loss of power" in text, text
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["folder"]


def stopped_for_a_while(inputs, folder, after):
    """(status, standard error) of a job whose process is stopped for longer than the deadline, `after` seconds from its start."""
    variables = call("pread", "w.safetensors", 0, kind="slow")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    folder.mkdir()
    command = [EXECUTOR, *words("save", inputs, folder), "--deadline", str(DEADLINE)]
    job = subprocess.Popen(command, env=clean | variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(after)
    job.send_signal(signal.SIGSTOP)
    time.sleep(DEADLINE + 1)
    job.send_signal(signal.SIGCONT)
    said = job.communicate(timeout=DEADLINE + GRACE)[1]
    return job.returncode, said


def test_stopped_job_continues(inputs, tmp_path):
    """By ^Z, or by a scheduler that suspends jobs: no rank is stuck or late."""
    moments = [0.3, 0.8, 1.3, 1.8, 2.3]
    with ThreadPoolExecutor(len(moments)) as workers:
        ends = workers.map(lambda after: stopped_for_a_while(inputs, tmp_path / str(after), after), moments)
        for after, (status, said) in zip(moments, ends):
            assert status == 0 and "error" not in said, (after, status, said)


def test_unregistered_stuck_call_is_found(inputs, tmp_path):
    path = "shard-00002-model-00001-of-00001.safetensors"
    status, said, _ = alone(words("save", inputs, tmp_path), call("close", path, 1))
    assert status == 1 and "error[TP8016]: system call " in said and "note: rank 1 failed at step " in said, said


MPI_CASES = [
    (*which, rank)
    for which in (("load", "pread", "w.safetensors", 6), ("save", "pwrite", "", 2), ("load", "read", "m.json", 1))
    for rank in (0, 1)
]


@pytest.fixture(scope="module")
def mpi_jobs(pool, inputs, tmp_path_factory):
    """{case: (folder, its future result)}"""
    deadline = DEADLINE + 9  # MPI_Init has this deadline, too, and takes seconds on a busy machine
    found = {}
    for case in MPI_CASES:
        command, name, path, number, rank = case
        folder = tmp_path_factory.mktemp("mpi")
        arguments = [*words(command, inputs, folder), "--backend", "mpi", "--deadline", deadline]
        variables = call(name, path, number, rank=rank)
        found[case] = folder, pool.submit(mpirun, 3, EXECUTOR, *arguments, timeout=deadline + 3 * GRACE, **variables)
    return found


@needs_mpi
@pytest.mark.parametrize("command, name, path, number, rank", MPI_CASES)
def test_stuck_call_over_mpi(command, name, path, number, rank, mpi_jobs):
    folder, job = mpi_jobs[command, name, path, number, rank]
    result = job.result()
    assert result.returncode != 0
    assert "error[TP8016]: " in result.stderr and f"rank {rank} failed at step " in result.stderr, result.stderr
    assert "is disconnected" not in result.stderr and "TP8008" not in result.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("rank", [0, 2])
def test_stuck_call_over_nccl(rank, inputs, tmp_path):
    command = [
        EXECUTOR,
        *words("load", inputs, tmp_path),
        "--backend",
        "nccl",
        "--device",
        "cpu",
        "--deadline",
        DEADLINE,
    ]
    folder = tmp_path / "own"
    folder.mkdir()
    job = run_on_stand_in(folder, 3, command, **call("pread", "w.safetensors", 6, rank=rank))
    assert 0 not in job.statuses
    assert any("error[TP8016]: " in error and f"rank {rank} failed at step " in error for error in job.errors), (
        job.errors
    )
    assert not any("is disconnected" in error or "TP8008" in error for error in job.errors), job.errors
    assert job.seconds < DEADLINE + GRACE
