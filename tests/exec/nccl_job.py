"""Starts the ranks of one job like torchrun: one process per rank, with its environment variables."""

import collections
import os
import pathlib
import socket
import subprocess
import time

TESTS = pathlib.Path(os.environ["TPPLAN"]).parent / "tests"
COLLECTIVES = str(TESTS / "tpplan_collectives")
RANKS = str(TESTS / "tpplan_ranks")
DEVICE = str(TESTS / "tpplan_device")
FAKE = str(TESTS / "libtpplan_fake_nccl.so")

# Results of the ranks. `log` has a line for each call of the stand-in: rank, function, numbers.
Job = collections.namedtuple("Job", "statuses outputs errors seconds log")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_ranks(world, command, environment=None, of_rank=lambda rank: {}, timeout=60):
    """Runs `command` as every rank of `world`. of_rank(rank) returns environment variables of this rank only."""
    # The leak checker stops all threads at the end, which sometimes fails if one is just ending.
    shared = {
        **os.environ,
        "ASAN_OPTIONS": "detect_leaks=0",
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        **(environment or {}),
    }
    start = time.monotonic()
    ranks = [
        subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank), **of_rank(rank)},
        )
        for rank in range(world)
    ]
    try:
        ends = [rank.communicate(timeout=timeout) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return Job(
        [rank.returncode for rank in ranks],
        [out for out, _ in ends],
        [error for _, error in ends],
        time.monotonic() - start,
        [],
    )


def run_on_stand_in(folder, world, command, of_rank=lambda rank: {}, **environment):
    """Runs like run_ranks, with the stand-in for NCCL. Its files are in a new folder in `folder`."""
    own = folder / f"nccl-{time.monotonic_ns()}"
    own.mkdir()
    job = run_ranks(
        world,
        command,
        {"TPPLAN_NCCL_LIBRARY": FAKE, "FAKE_NCCL_DIR": str(own), "FAKE_NCCL_LOG": str(own / "log"), **environment},
        of_rank,
    )
    return job._replace(log=(own / "log").read_text().splitlines() if (own / "log").exists() else [])


def run_alone(command, **environment):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
