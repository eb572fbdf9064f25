"""A job opens as many files and connections as it needs, or the error names the limit. It blames no rank."""

import errno
import os
import resource

import pytest
from executor import execute, succeeds
from nccl_job import COLLECTIVES, FAKE, run_on_stand_in
from test_stuck_calls import call
from weights import compile_manifest, random_tensors, write_file

RANKS = 48
SHAPES = {"m.a": ("float32", (RANKS, 4))}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """(manifest, folder with one file per rank)."""
    folder = tmp_path_factory.mktemp("files")
    write_file(folder / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(folder, SHAPES, {"m.a": ["tp", None]}, {"tp": RANKS}, "m.json")
    succeeds("save", manifest, "--weights", folder / "w.safetensors", "-o", folder / "shards")
    return manifest, folder / "shards"


def limit(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_soft_file_limit_is_raised(shards):
    manifest, folder = shards
    result = execute("load", manifest, "--weights", folder, preexec_fn=limit(24, 200))
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(
    os.environ.get("TPPLAN_SANITIZED") == "1", reason="UBSan opens a pipe where it looks at an object's type"
)
def test_hard_file_limit_is_named_without_blaming_a_rank(shards):
    manifest, folder = shards
    result = execute("load", manifest, "--weights", folder, preexec_fn=limit(24, 40))
    assert result.returncode == 2
    assert "Too many open files: the limit of this process is 40, set by ulimit -Hn" in result.stderr
    assert "rank" not in result.stderr.replace("ranks", "")


def test_file_limit_is_reported_before_the_rendezvous(shards, tmp_path):
    manifest, folder = shards
    variables = {"RANK": "0", "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29871"}
    result = execute(
        *("run", manifest, "--backend", "nccl", "--device", "cpu", "--deadline", "30"),
        env=variables | {"TPPLAN_NCCL_LIBRARY": FAKE, "FAKE_NCCL_DIR": str(tmp_path)},
        timeout=20,
        preexec_fn=limit(24, 40),
    )
    assert result.returncode == 2, result.stderr
    assert "rank 0 connects to 47 other ranks and needs " in result.stderr and "but the limit is 40" in result.stderr


def test_failed_accept_is_not_an_absent_rank(tmp_path):
    """The first one: a later one takes the descriptor of a caller that has not proved that it is a rank."""
    faulty = call("accept", number=1, kind=errno.EMFILE, rank=0)
    job = run_on_stand_in(tmp_path, 3, [COLLECTIVES, "nccl", "cpu", "3", "5"], **faulty)
    assert job.statuses == [2, 2, 2]
    assert "rank 0 cannot accept another rank: Too many open files: the limit of this process is " in job.errors[0]
    assert "did not return" not in "".join(job.errors) and "has not returned" not in "".join(job.errors)


def test_aborted_connection_is_ignored(tmp_path):
    faulty = call("accept", number=1, kind=errno.ECONNABORTED, rank=0)
    job = run_on_stand_in(tmp_path, 3, [COLLECTIVES, "nccl", "cpu", "3", "20"], **faulty)
    assert job.statuses == [0, 0, 0], job.errors
