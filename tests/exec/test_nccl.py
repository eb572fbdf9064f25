"""--backend nccl without a GPU: a stand-in library (fake_nccl.cc) replaces NCCL and moves CPU memory between processes. These tests cover
our side of the calls: grouping, uneven and empty shards, waits, aborts and error messages. They prove nothing about NCCL or GPUs;
test_gpu.py does."""

import collections
import ctypes
import math
import shutil

import pytest
from executor import EXECUTOR, succeeds
from nccl_job import COLLECTIVES, FAKE, RANKS, run_alone, run_on_stand_in
from ranks import GRACE
from weights import compile_manifest, random_tensors, write_file

DEADLINE = 2


def is_installed(library):
    try:
        return ctypes.CDLL(library) is not None
    except OSError:
        return False


def collectives(backend, world, deadline=DEADLINE):
    return [COLLECTIVES, backend, "cpu", str(world), str(deadline)]


def run_job(tmp_path, world, deadline=20, **environment):
    """The deadline is short if a test is about it, otherwise long enough for a busy machine."""
    return run_on_stand_in(tmp_path, world, collectives("nccl", world, deadline), **environment)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_every_rank_gets_the_results_of_local(tmp_path, world):
    job = run_job(tmp_path, world)
    assert job.statuses == [0] * world, job.errors
    assert job.outputs[0] == run_alone(collectives("local", world))
    assert job.outputs[0].count("\n") > 300 * world


def test_rccl_is_used_if_nccl_is_missing(tmp_path):
    """Tests the library name only: the stand-in has NCCL's functions, as RCCL has. It does not show that RCCL works."""
    shutil.copy(FAKE, tmp_path / "librccl.so.1")
    job = run_job(tmp_path, 2, TPPLAN_NCCL_LIBRARY="", LD_LIBRARY_PATH=str(tmp_path))
    assert job.statuses == [0, 0], job.errors
    assert job.outputs[0] == run_alone(collectives("local", 2))
    assert job.log


@pytest.mark.skipif(is_installed("libnccl.so.2"), reason="skipped: the linker finds an NCCL here")
def test_library_of_the_pypi_package_is_found(tmp_path):
    folder = tmp_path / "venv" / "lib" / "python3.99" / "site-packages" / "nvidia" / "nccl" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(FAKE, folder / "libnccl.so.2")
    job = run_job(tmp_path, 2, TPPLAN_NCCL_LIBRARY="", VIRTUAL_ENV=str(tmp_path / "venv"))
    assert job.statuses == [0, 0], job.errors
    assert job.log


@pytest.mark.parametrize("mesh, what", [("2x2", "cases"), ("3", "cases"), ("3", "sizes")])
def test_redistributions_match_local(tmp_path, mesh, what):
    world = math.prod(map(int, mesh.split("x")))
    job = run_on_stand_in(tmp_path, world, [RANKS, "nccl", mesh, what, "20"], TPPLAN_EXEC_DEVICE="cpu")
    assert job.statuses == [0] * world, job.errors
    assert job.outputs[0] == run_alone([RANKS, "local", mesh, what], TPPLAN_EXEC_DEVICE="cpu")


def test_even_shards_use_one_collective_uneven_ones_a_group(tmp_path):
    job = run_job(tmp_path, 3)
    calls = [line.split() for line in job.log]
    counts = {
        name: sorted({int(call[call.index("count") + 1]) for call in calls if call[2] == name})
        for name in ("AllGather", "Broadcast", "Send", "Recv", "ReduceScatter", "Reduce")
    }
    assert counts["AllGather"] == [12]
    gathered = [5, 8, 9, 11]  # 5 + 3 i, and 9 for every second rank: never 0, never the largest for all
    reduced = [2, 24, 26, 36, 38]  # 1 and 37 values of 16 bits, reduced in shards: 1; 13, 12, 12; 19, 18
    assert counts["Broadcast"] == sorted(gathered + reduced)
    assert counts["ReduceScatter"] == [12]
    assert counts["Reduce"] == [5, 8, 9, 11]
    assert counts["Send"] == counts["Recv"]
    assert 0 not in counts["Send"]
    assert all(call[-1] == "grouped" for call in calls if "count" in call)


def test_one_communicator_per_group_destroyed_in_order(tmp_path):
    job = run_job(tmp_path, 4)
    made = collections.Counter(line.split()[1] for line in job.log if "CommInitRankConfig" in line)
    assert made == {str(rank): 3 for rank in range(4)}  # all, neighbours, every second; a single rank needs none
    for name in ("CommFinalize", "CommDestroy"):
        assert collections.Counter(line.split()[1] for line in job.log if name in line) == made
    assert not [line for line in job.log if "CommAbort" in line]


@pytest.mark.parametrize("kind", ["error", "async"])
def test_library_error_names_rank_step_and_call_everywhere(tmp_path, kind):
    job = run_job(tmp_path, 3, FAKE_NCCL_FAULT=f"rank=1,call=5,kind={kind}")
    assert job.statuses == [1, 1, 1]
    for error in job.errors:
        assert error == (
            "rank 1 failed at step 6 (all_to_all over all): ncclSend and ncclRecv: the stand-in's error: the test asks for this "
            "error: set NCCL_DEBUG=WARN for details\n"
        )
    assert job.seconds < DEADLINE + GRACE
    assert {line.split()[1] for line in job.log if "CommAbort" in line} == {"0", "1", "2"}


def test_hanging_call_ends_at_the_deadline_on_every_rank(tmp_path):
    job = run_job(tmp_path, 3, deadline=DEADLINE, FAKE_NCCL_FAULT="rank=1,call=5,kind=hang")
    assert job.statuses == [1, 1, 1]
    assert DEADLINE <= job.seconds < DEADLINE + GRACE
    assert all("has waited 2 s at step 6 (all_to_all over all)" in error for error in job.errors), job.errors
    assert {line.split()[1] for line in job.log if "CommAbort" in line} == {"0", "1", "2"}


def test_hanging_abort_still_ends_the_process(tmp_path):
    job = run_job(tmp_path, 2, deadline=DEADLINE, FAKE_NCCL_FAULT="rank=1,call=5,kind=stuck")
    assert job.statuses == [1, 1]
    assert job.seconds < DEADLINE + GRACE
    assert all("NCCL's communicators could not be aborted" in error for error in job.errors), job.errors


@pytest.mark.parametrize(
    "kind, text",
    [
        ("error", "rank 1 failed at its start: ncclCommInitRankConfig: the stand-in's error"),
        ("hang", "has waited 2 s at its start"),
    ],
)
def test_communicator_failure_is_a_setup_error(tmp_path, kind, text):
    job = run_job(tmp_path, 3, deadline=DEADLINE, FAKE_NCCL_FAULT=f"rank=1,call=0,kind={kind}")
    assert job.statuses == [2, 2, 2]
    assert all(text in error for error in job.errors), job.errors
    assert job.seconds < DEADLINE + GRACE


@pytest.mark.parametrize(
    "kind, text", [("exit", "rank 2 is disconnected"), ("throw", "rank 2 failed at step 4 (all_gather over all)")]
)
def test_dead_rank_ends_the_others_at_once(tmp_path, kind, text):
    job = run_on_stand_in(
        tmp_path, 3, collectives("nccl", 3, deadline=40), TPPLAN_EXEC_FAULT=f"rank=2,step=4,kind={kind}"
    )
    assert job.statuses == [1, 1, 1]
    assert all(text in error for error in job.errors[:2]), job.errors
    assert job.seconds < 20  # no rank waited for the deadline


@pytest.mark.parametrize("fault", ["", "rank=0,call=0,kind=late", "rank=1,call=0,kind=late"])
def test_dtype_without_arithmetic_is_rejected_by_name(fault, tmp_path):
    job = run_job(tmp_path, 2, TPPLAN_DRIVER_REDUCES="float8_e4m3fn", FAKE_NCCL_FAULT=fault)
    assert job.statuses == [1, 1]
    assert all(
        "float8_e4m3fn has no arithmetic on this device" in error and "step 1" in error for error in job.errors
    ), job.errors


@pytest.mark.parametrize(
    "library, version, text",
    [
        (FAKE, "21210", "NCCL 2.12.10 is too old: 2.14.0 is the first"),
        ("/nowhere/libnccl.so.2", "", "cannot load NCCL: /nowhere/libnccl.so.2: cannot open shared object file"),
        ("libm.so.6", "", "libm.so.6: the library has no function ncclGetVersion"),
    ],
)
def test_unusable_library_is_reported_before_the_start(tmp_path, library, version, text):
    job = run_job(tmp_path, 2, TPPLAN_NCCL_LIBRARY=library, FAKE_NCCL_VERSION=version)
    assert job.statuses == [2, 2]
    assert all(text in error for error in job.errors), job.errors


def test_different_nccl_versions_are_rejected(tmp_path):
    job = run_on_stand_in(
        tmp_path, 2, collectives("nccl", 2, 5), of_rank=lambda rank: {"FAKE_NCCL_VERSION": ["22304", "23203"][rank]}
    )
    assert job.statuses == [2, 2]
    assert all("NCCL 2.23.4" in error and "NCCL 2.32.3" in error for error in job.errors), job.errors


SHAPES = {
    "rows": ("float32", (10, 6)),
    "columns": ("bfloat16", (70, 1200)),
    "both": ("int16", (9, 10)),
    "line": ("float64", (11,)),
    "whole": ("bool", (50, 30)),
    "large": ("bfloat16", (3000, 500)),
}
SPECS = {"rows": ["tp", None], "columns": [None, "tp"], "both": ["fsdp", "tp"], "line": ["tp"], "large": ["tp", "fsdp"]}


@pytest.mark.parametrize("mesh", [{"fsdp": 1, "tp": 3}, {"fsdp": 2, "tp": 2}], ids=str)
def test_nccl_loads_and_saves_the_bytes_of_local(mesh, tmp_path):
    world = mesh["fsdp"] * mesh["tp"]
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, mesh)
    save = ["save", manifest, "--weights", tmp_path / "w.safetensors", "-o"]
    job = run_on_stand_in(
        tmp_path,
        world,
        [EXECUTOR, *save, tmp_path / "nccl", "--backend", "nccl", "--device", "cpu", "--deadline", "20"],
    )
    assert job.statuses == [0] * world, job.errors
    succeeds(*save, tmp_path / "local")
    assert {p.name: p.read_bytes() for p in (tmp_path / "nccl").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "local").iterdir()
    }
    assert [line for line in job.log if "Send" in line]  # one rank reads each byte and sends it to the others
