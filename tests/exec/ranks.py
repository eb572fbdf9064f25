"""Starts tpplan_ranks (ranks_driver.cc) under the launchers of this machine."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

RANKS = str(Path(os.environ["TPPLAN"]).parent / "tests" / "tpplan_ranks")
NO_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_", "PMI", "SLURM_", "MASTER_", "TPPLAN_EXEC_", "TORCHELASTIC_")
# Seconds after the deadline in which a job must end. Two are promised; the rest tolerates other load. They only
# distinguish a job that ends from one that hangs.
GRACE = 30
needs_mpi = pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="no mpirun here: apt-get install openmpi-bin libopenmpi-dev"
)


def environment(**more):
    """Returns the environment without variables of a launcher, and with mpirun's permission to run as root. A lookup of
    this machine's name fails after one second (an empty system without /etc/hosts).
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(NO_RANKS)}
    return (
        clean
        | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        | {"RES_OPTIONS": "timeout:1 attempts:1"}
        | {k: str(v) for k, v in more.items()}
    )


def run(*command, timeout=60, **variables):
    """Runs the command and returns the finished process, with its `seconds`."""
    start = time.monotonic()
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=environment(**variables), timeout=timeout
    )
    result.seconds = time.monotonic() - start
    return result


NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}  # Open MPI does not free all memory


def mpirun(world, *arguments, timeout=60, **variables):
    """Runs mpirun with a separate folder for Open MPI's files: concurrent jobs would remove the common one."""
    variables = NO_LEAKS | variables
    exports = [part for name in variables for part in ("-x", name)]
    with tempfile.TemporaryDirectory(prefix="mpi", ignore_cleanup_errors=True) as folder:
        command = ["mpirun", "-np", world, "--oversubscribe", *exports, *arguments]
        return run(*command, timeout=timeout, TMPDIR=folder, **variables)


def side_by_side(function, cases):
    """Returns function(case) for each case, in order, with four jobs at a time: an mpirun job mostly waits."""
    with ThreadPoolExecutor(4) as workers:
        return list(workers.map(function, cases))


def names(rank, said):
    """Returns True if a job's output names the rank that was lost: in our message, or in mpirun's, which may end all
    ranks before they report.
    """
    launcher = rf"Process name: \[(\[\d+,1\]|prterun-[^\]]*@1),{rank}\]"  # Open MPI 4 and 5
    return f"rank {rank} " in said or re.search(launcher, said) is not None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_ranks(each, port, **variables):
    """Starts one process for each entry of `each`: the arguments and environment variables of a rank without launcher.
    Returns (status, output, seconds) of all.
    """
    start = time.monotonic()
    processes = []
    for arguments, own in each:
        env = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **NO_LEAKS, **variables) | {
            k: str(v) for k, v in own.items()
        }
        processes.append(
            subprocess.Popen(
                [RANKS, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
            )
        )
    ends = []
    try:
        for process in processes:
            output, _ = process.communicate(timeout=60)
            ends.append((process.returncode, output, time.monotonic() - start))
    finally:
        for process in processes:
            process.kill()
    return ends
