"""load, verify and save with --broadcast: the job reads each byte of the files once, for any number of nodes, and ranks send each other
the bytes that they share. Here every rank is a process on a simulated node. A stand-in for NCCL carries the bytes, and once Open MPI."""

import json

import pytest
from executor import EXECUTOR, execute, succeeds
from nccl_job import run_on_stand_in
from ranks import mpirun, needs_mpi
from test_own_checksums import LARGE, LARGE_CUT, SEGMENTS, change_a_bit
from test_stuck_calls import FAULTY, call
from weights import byte_count, compile_manifest, random_tensors, write_file

SIZE = sum(byte_count(*shape) for shape in LARGE.values())
MESHES = [{"dp": 2, "fsdp": 1, "tp": 2}, {"dp": 2, "fsdp": 2, "tp": 1}, {"fsdp": 1, "dp": 3, "tp": 1}]


def own_node(rank):
    return {
        "LD_PRELOAD": FAULTY,
        "FAULTY_HOST": f"node{rank}",
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
        "TSAN_OPTIONS": "report_bugs=0",
    }


def write_inputs(folder, mesh):
    """(manifest, weights)"""
    write_file(folder / "w.safetensors", random_tensors(LARGE))
    return compile_manifest(folder, LARGE, LARGE_CUT, mesh, segments=SEGMENTS), folder / "w.safetensors"


def on_nodes(folder, ranks, *arguments, more=(), of_rank=own_node, **environment):
    words = [EXECUTOR, *arguments, "--backend", "nccl", "--device", "cpu", *more]
    return run_on_stand_in(folder, ranks, words, of_rank, **environment)


def result_of(job):
    assert job.statuses == [0] * len(job.statuses), job.errors
    return json.loads(job.outputs[0])


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_broadcast_reads_each_byte_once_per_job(mesh, tmp_path):
    manifest, weights = write_inputs(tmp_path, mesh)
    ranks = mesh["dp"] * mesh["fsdp"] * mesh["tp"]
    load = ["load", manifest, "--weights", weights, "--json"]
    apart = result_of(on_nodes(tmp_path, ranks, *load))
    assert apart["read_bytes"] >= mesh["dp"] * SIZE
    for staging in ("1MB", "64MB"):
        once = result_of(on_nodes(tmp_path, ranks, *load, "--broadcast", "--staging", staging))
        assert once["needed_bytes"] == SIZE <= once["read_bytes"] <= 1.1 * SIZE  # with small gaps of a fused dim
        assert once["bytes_per_rank"] == apart["bytes_per_rank"]


@pytest.mark.parametrize("mesh", MESHES[:2], ids=str)
def test_broadcast_loads_the_bytes_of_a_plain_load(mesh, tmp_path):
    """Byte for byte as in the source, and saved so: from full tensors, and from shards of another mesh with their checksums."""
    manifest, weights = write_inputs(tmp_path, mesh)
    ranks = mesh["dp"] * mesh["fsdp"] * mesh["tp"]
    proof = result_of(on_nodes(tmp_path, ranks, "verify", manifest, "--weights", weights, "--json", "--broadcast"))
    assert proof["equal"] and proof["compared_bytes"] >= mesh["dp"] * SIZE
    other = compile_manifest(tmp_path, LARGE, LARGE_CUT, {"fsdp": 3, "tp": 2}, "other.json", segments=SEGMENTS)
    succeeds("save", other, "--weights", weights, "-o", tmp_path / "shards")
    saved = on_nodes(
        tmp_path, ranks, "save", manifest, "--weights", tmp_path / "shards", "-o", tmp_path / "to", "--broadcast"
    )
    assert saved.statuses == [0] * ranks, saved.errors
    succeeds("save", manifest, "--weights", weights, "-o", tmp_path / "local", "--broadcast")
    files = lambda name: {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}  # noqa: E731
    assert files("to") == files("local")
    loaded = result_of(
        on_nodes(tmp_path, ranks, "load", manifest, "--weights", tmp_path / "shards", "--json", "--broadcast")
    )
    assert loaded["checked_bytes"] == loaded["needed_bytes"] == SIZE
    change_a_bit(sorted((tmp_path / "shards").glob("*.safetensors"))[2], "middle")
    damaged = on_nodes(tmp_path, ranks, "load", manifest, "--weights", tmp_path / "shards", "--broadcast")
    assert damaged.statuses == [1] * ranks and "has CRC-32C" in " ".join("".join(damaged.errors).split())


@needs_mpi
def test_broadcast_works_over_mpi(tmp_path):
    manifest, weights = write_inputs(tmp_path, MESHES[0])
    words = ["verify", manifest, "--weights", weights, "--backend", "mpi", "--json", "--quiet", "--broadcast"]
    result = mpirun(4, EXECUTOR, *words)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["equal"]


@pytest.mark.parametrize("kind", ["exit", "throw"])
def test_lost_rank_is_named_during_a_broadcast(kind, tmp_path):
    manifest, weights = write_inputs(tmp_path, MESHES[0])
    words = ["load", manifest, "--weights", weights, "--broadcast", "--deadline", "20"]
    steps = 0
    for step in range(4, 30, 2):
        job = on_nodes(tmp_path, 4, *words, TPPLAN_EXEC_FAULT=f"rank=2,step={step},kind={kind}")
        if job.statuses == [0] * 4:
            break
        said = "".join(job.errors)
        assert all(job.statuses) and "rank 2" in said and said.count("error[") == 1, said
        steps += "all_gather of" in said
    assert job.statuses == [0] * 4 and steps >= 2


def test_failed_read_names_only_the_reading_rank(tmp_path):
    manifest, weights = write_inputs(tmp_path, MESHES[0])
    words = ["load", manifest, "--weights", weights, "--broadcast", "--deadline", "3", "--staging", "1MB"]
    for kind, code in (("hang", "TP8008"), (5, "TP8029")):
        faulty = call("pread", "w.safetensors", 12, kind)
        job = on_nodes(tmp_path, 4, *words, of_rank=lambda rank: own_node(rank) | (faulty if rank == 1 else {}))  # noqa: B023
        said = "".join(job.errors)
        assert all(job.statuses) and said.count("error[") == 1, said
        assert weights.name in said and ("rank 1" in said or "error[" in job.errors[1]), said
        assert kind == "hang" or code in said


def test_threads_of_one_process_read_each_byte_once(tmp_path):
    manifest, weights = write_inputs(tmp_path, MESHES[0])
    assert (
        json.loads(execute("load", manifest, "--weights", weights, "--json", "--broadcast").stdout)["read_bytes"]
        == SIZE
    )


def test_rank_opens_only_the_files_it_reads(tmp_path):
    """The folder was written by its own manifest, for any number of nodes. The rank that reads a broken file reports it."""
    manifest, weights = write_inputs(tmp_path, {"fsdp": 3, "tp": 2})
    folder = tmp_path / "shards"
    succeeds("save", manifest, "--weights", weights, "-o", folder)
    count = len(list(folder.glob("*.safetensors")))
    load, verify = ["load", manifest, "--weights", folder, "--json"], ["verify", manifest, "--from", folder, "--json"]
    loaded = result_of(on_nodes(tmp_path, 6, *load))
    # A rank opens its own file and those of the first holders of shared bytes: three for the intervals of a fused dim.
    assert (loaded["most_files_opened"], count) == (7, 10) and loaded["checked_bytes"] == loaded["read_bytes"]
    proof = result_of(on_nodes(tmp_path, 6, *verify, "--weights", weights))
    assert proof["equal"] and proof["compared_bytes"] == proof["checked_bytes"]
    assert json.loads(succeeds(*load).stdout)["most_files_opened"] == count
    path = next(iter(sorted(folder.glob("shard-00005-*"))))
    content = path.read_bytes()
    for broken, code in ((content[:-1], "TP"), (content.replace(b"saved_offsets", b"saved_offsetz"), "TP")):
        path.write_bytes(broken)
        job = on_nodes(tmp_path, 6, *load)
        assert all(job.statuses) and f"error[{code}" in "".join(job.errors) and path.name in "".join(job.errors), (
            job.errors
        )
    path.write_bytes(content)
    change_a_bit(path, "last")
    job = on_nodes(tmp_path, 6, *verify)
    assert job.statuses == [1] * 6 and "error[TP8043]" in "".join(job.errors) and path.name in "".join(job.errors)
