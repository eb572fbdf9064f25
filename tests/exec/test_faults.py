"""If a rank fails, all ranks end within the deadline and two seconds, and report that rank and its step."""

import itertools
import math
import os
import re
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ranks import GRACE, RANKS, free_port, mpirun, names, needs_mpi, run, start_ranks

DEADLINE = 4  # of the ranks that wait
IN_TIME = DEADLINE + GRACE
START = 45  # seconds for the rendezvous if no test waits for them to pass: enough for a busy machine
LONELY = 12  # deadline of a rank 0 that waits for an absent rank; longer than the ranks start apart
KINDS = ["exit", "hang", "throw"]
STEPS = [1, 3, 7]  # the first, one in the middle, the last: gathering the results
TOGETHER = 3  # concurrent jobs, which wait most of the time


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(TOGETHER) as pool:
        yield pool


@pytest.fixture(scope="module")
def mpi(pool):
    """Limits of jobs under mpirun, measured on jobs without an error, with the concurrency of the tests: mpirun needs time to start and
    end ranks. The seconds in which a job with DEADLINE ends, the deadline for jobs that hang in MPI_Init, and the seconds in which those
    end. MPI_Init resolves the host name, which may take seconds, and the machine may become busier."""
    results = list(pool.map(lambda _: mpirun(4, RANKS, "mpi", "4", "steps", START), range(TOGETHER)))
    assert [r.returncode for r in results] == [0] * TOGETHER, [r.stderr for r in results]
    longest = max(r.seconds for r in results)
    deadline = DEADLINE + 3 * math.ceil(longest)
    return types.SimpleNamespace(
        in_time=IN_TIME + longest, start_deadline=deadline, start_in_time=deadline + GRACE + longest
    )


@pytest.fixture(scope="module", autouse=True)
def ranks_without_one(pool):
    """The ends of ranks 0 and 2 of 3; they wait while the other jobs run. Rank 2 waits for rank 0, whichever of them starts first."""
    each = [
        (["mpi", "3", "steps", deadline], {"RANK": rank, "WORLD_SIZE": 3})
        for rank, deadline in ((0, LONELY), (2, START))
    ]
    return pool.submit(start_ranks, each, free_port())


def fault(rank, step, kind):
    return f"rank={rank},step={step},kind={kind}"


@pytest.fixture(scope="module")
def local_jobs(pool):
    """{(kind, step): its finished process}"""
    command = (RANKS, "local", "4", "steps", DEADLINE)
    cases = itertools.product(KINDS, STEPS)
    return {case: pool.submit(run, *command, TPPLAN_EXEC_FAULT=fault(2, case[1], case[0])) for case in cases}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_local_error_names_the_rank_and_the_step(kind, step, local_jobs):
    result = local_jobs[kind, step].result()
    assert result.returncode == 1
    assert result.seconds < IN_TIME
    assert result.stdout == ""
    assert "rank 2" in result.stderr and f"step {step} (" in result.stderr


FAULTY_RANKS = [0, 2]


@pytest.fixture(scope="module")
def mpi_jobs(pool, mpi):
    """{(rank, kind, step): its finished process}"""
    command = (4, RANKS, "mpi", "4", "steps", f"{START},{DEADLINE}")
    cases = itertools.product(FAULTY_RANKS, KINDS, STEPS)
    return {
        (rank, kind, step): pool.submit(mpirun, *command, TPPLAN_EXEC_FAULT=fault(rank, step, kind))
        for rank, kind, step in cases
    }


@needs_mpi
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", FAULTY_RANKS)
def test_mpi_error_names_the_rank_and_the_step(kind, step, rank, mpi, mpi_jobs):
    result = mpi_jobs[rank, kind, step].result()
    assert result.returncode != 0
    assert result.seconds < mpi.in_time
    if kind == "exit" and "fault: " not in result.stderr:  # mpirun has ended the others before they reported
        assert names(rank, result.stderr), result.stderr
        return
    named = [
        line
        for line in result.stderr.splitlines()
        if line.startswith("fault: ") and re.search(rf"\brank {rank}\b", line)
    ]
    assert named, result.stderr
    steps = (step, step - 1) if (rank, kind) == (0, "exit") else (step,)  # the others may still be in the previous step
    places = [f"step {number} (" if number > 0 else "its start" for number in steps]
    assert any(place in line for place in places for line in named), result.stderr
    expected = {
        "exit": f"rank {rank} is disconnected",
        "hang": f"for rank {rank}, which is still at step {step}",
        "throw": f"rank {rank} failed at step {step}",
    }
    assert all(expected[kind] in line for line in named), result.stderr


@needs_mpi
def test_rendezvous_timeout_names_the_absent_rank(ranks_without_one):
    for status, output, seconds in ranks_without_one.result():
        assert status == 2
        assert f"fault: rank 1 of 3 has not connected to rank 0 within {LONELY} s" in output
        assert seconds < LONELY + GRACE


@needs_mpi
def test_mpi_init_timeout_names_the_absent_rank(mpi):
    script = f'[ "$OMPI_COMM_WORLD_RANK" != 1 ] || exec sleep 200; exec {RANKS} mpi 3 steps {mpi.start_deadline}'
    result = mpirun(3, "sh", "-c", script, timeout=120)
    assert result.returncode != 0
    assert re.search(
        rf"rank 0: MPI_Init did not return within {mpi.start_deadline} s on \S+: in MPI_Init are ranks 0 and 2; "
        r"not in it: rank 1 \(process \d+, `sleep`, waits in kernel function \w+\)\n",
        result.stderr,
    ), result.stderr
    assert result.stderr.count("TP8005") <= 1, "said once a node"
    assert result.seconds < mpi.start_in_time + 1  # mpirun waits a second for the sleeping rank


FAULTY = Path(RANKS).parent / "libtpplan_faulty_calls.so"


@needs_mpi
@pytest.mark.skipif("TPPLAN_SANITIZED" in os.environ, reason="sanitizers have an allocator of their own")
def test_hang_within_mpi_init_names_the_hanging_rank(mpi):
    """The rank hangs in the 40th file that it closes: MPI_Init of Open MPI 4 closes a hundred, the code before it a dozen."""
    hang = f"LD_PRELOAD={FAULTY} FAULTY_CALL=name=close,number=40,kind=hang,rank=1"  # not in mpirun itself
    for more in (0, 3 * mpi.start_deadline):  # on a busy machine rank 1 may not have reached that file yet
        deadline = mpi.start_deadline + more
        result = mpirun(3, "sh", "-c", f"{hang} exec {RANKS} mpi 3 steps {deadline}", timeout=200)
        if result.returncode == 0 or "MPI_Finalize did not return" in result.stderr:
            pytest.skip("MPI_Init of this library closes fewer files")
        if "waits in" in result.stderr:
            break
    assert re.search(
        r"in MPI_Init are ranks 0, 1 and 2; rank 1 \(process \d+\) waits in kernel function \w*pause, the others ",
        result.stderr,
    ), result.stderr
    assert result.seconds < mpi.start_in_time + more + 1


@needs_mpi
def test_wrong_world_size_error_shows_the_mpirun_command(mpi):
    result = mpirun(3, RANKS, "mpi", "2x2", "steps", START)
    assert result.returncode != 0
    assert (
        "the manifest's mesh has 4 ranks, but Open MPI has a world size of 3: start it with `mpirun -np 4 ...`"
        in result.stderr
    )
    assert result.seconds < mpi.in_time


@needs_mpi
def test_different_manifest_error_names_rank_and_digests(mpi):
    script = f'exec {RANKS} mpi 3 steps {START} "manifest sha256 $((OMPI_COMM_WORLD_RANK / 2))"'
    result = mpirun(3, "sh", "-c", script)
    assert result.returncode != 0
    assert (
        'rank 2 has a different manifest or options than rank 0: "manifest sha256 1" instead of "manifest sha256 0"'
        in result.stderr
    )
    assert result.seconds < mpi.in_time


@needs_mpi
@pytest.mark.parametrize("secret", [{}, {"TPPLAN_EXEC_SECRET": "chosen"}], ids=["no secret", "secret"])
def test_duplicate_rank_is_rejected(secret):
    """At once if both prove that they are of the job, else when a rank is missing at the deadline."""
    deadline = START if secret else LONELY
    each = [(["mpi", "3", "steps", deadline], {"RANK": rank, "WORLD_SIZE": 3} | secret) for rank in (0, 1, 1)]
    ends = start_ranks(each, free_port())
    assert [status for status, _, _ in ends] == [2, 2, 2]
    assert "two processes have rank 1: " in ends[0][1]
    assert all(seconds < IN_TIME for _, _, seconds in ends)


@needs_mpi
def test_occupied_port_is_named():
    import socket

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        each = [(["mpi", "2", "steps", DEADLINE], {"RANK": rank, "WORLD_SIZE": 2}) for rank in (0, 1)]
        ends = start_ranks(each, port)
    assert f"rank 0 cannot listen at 127.0.0.1:{port}: Address already in use" in ends[0][1]
    assert "rank 1 cannot reach rank 0 at 127.0.0.1:" in ends[1][1]
    assert "rank 0 has not replied, because it waits until all ranks are connected" in ends[1][1]
    assert [status for status, _, _ in ends] == [2, 2]
    assert all(seconds < IN_TIME for _, _, seconds in ends)


def test_local_backend_under_a_launcher_is_rejected():
    result = run(RANKS, "local", "4", "steps", RANK=1, WORLD_SIZE=4)
    assert result.returncode == 2
    assert (
        "--backend local runs all 4 ranks in one process, but torchrun started 4 processes: run it without the launcher"
        in result.stderr
    )


def test_conflicting_launcher_variables_are_named():
    result = run(RANKS, "mpi", "2", "steps", RANK=1, WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=2)
    assert result.returncode == 2
    assert "torchrun and Open MPI disagree: RANK=1, OMPI_COMM_WORLD_RANK=0" in result.stderr


def test_too_many_threads_for_the_machine_is_an_error():
    result = run("sh", "-c", f"ulimit -v 2000000; exec {RANKS} local 1000 steps 5", timeout=60)
    if os.environ.get("TPPLAN_SANITIZED"):
        pytest.skip("a sanitizer needs more address space itself")
    assert result.returncode in (1, 3)
    assert "cannot start" in result.stderr or "memory" in result.stderr, result.stderr


LIMITS = [*range(40_000, 200_000, 26_000), *range(350_000, 1_500_000, 190_000)]  # kilobytes


@pytest.fixture(scope="module")
def limited_jobs(pool):
    """{kilobytes: its finished process}"""
    command = f"exec {RANKS} local 300 steps 5"
    return {limit: pool.submit(run, "sh", "-c", f"ulimit -v {limit}; {command}", timeout=60) for limit in LIMITS}


@pytest.mark.parametrize("kilobytes", LIMITS)
def test_memory_limit_is_an_error_and_never_an_abort(kilobytes, request):
    if os.environ.get("TPPLAN_SANITIZED"):
        pytest.skip("a sanitizer needs more address space itself")
    result = request.getfixturevalue("limited_jobs")[kilobytes].result()
    assert result.returncode in (1, 3), result
    assert "memory" in result.stderr, result.stderr
