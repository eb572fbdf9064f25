"""As many files and connections as a job needs are open, or it is said which limit is in the way: no rank is blamed for it."""

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
    """(manifest, another manifest, a folder of a file a rank)."""
    folder = tmp_path_factory.mktemp("files")
    write_file(folder / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(folder, SHAPES, {"m.a": ["tp", None]}, {"tp": RANKS}, "m.json")
    succeeds("save", manifest, "--weights", folder / "w.safetensors", "-o", folder / "shards")
    return manifest, folder / "shards"


def limit(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_is_raised(shards):
    manifest, folder = shards
    result = execute("load", manifest, "--weights", folder, preexec_fn=limit(24, 200))
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(
    os.environ.get("TPPLAN_SANITIZED") == "1", reason="UBSan opens a pipe where it looks at an object's type"
)
def test_files_beyond_the_hard_limit_are_counted_and_no_rank_is_named(shards):
    manifest, folder = shards
    result = execute("load", manifest, "--weights", folder, preexec_fn=limit(24, 40))
    assert result.returncode == 2
    assert "Too many open files: this process may have 40, which ulimit -Hn" in result.stderr
    assert "rank" not in result.stderr.replace("ranks", "")


def test_ranks_that_do_not_fit_are_said_before_anybody_waits(shards, tmp_path):
    manifest, folder = shards
    variables = {"RANK": "0", "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29871"}
    result = execute(
        *("run", manifest, "--backend", "nccl", "--device", "cpu", "--deadline", "30"),
        env=variables | {"TPPLAN_NCCL_LIBRARY": FAKE, "FAKE_NCCL_DIR": str(tmp_path)},
        timeout=20,
        preexec_fn=limit(24, 40),
    )
    assert result.returncode == 2, result.stderr
    assert "rank 0 speaks with 47 other ranks and needs " in result.stderr and "and may have 40" in result.stderr


@pytest.mark.parametrize("number", [1, 2])
def test_a_caller_that_cannot_be_taken_in_is_no_rank_that_stayed_away(number, tmp_path):
    faulty = call("accept", number=number, kind=errno.EMFILE, rank=0)
    job = run_on_stand_in(tmp_path, 3, [COLLECTIVES, "nccl", "cpu", "3", "5"], **faulty)
    assert job.statuses == [2, 2, 2]
    assert "rank 0 cannot take in another rank: Too many open files: this process may have " in job.errors[0]
    assert "has not come" not in "".join(job.errors) and "have not come" not in "".join(job.errors)


def test_a_caller_that_is_gone_again_is_nobodys_failure(tmp_path):
    faulty = call("accept", number=1, kind=errno.ECONNABORTED, rank=0)
    job = run_on_stand_in(tmp_path, 3, [COLLECTIVES, "nccl", "cpu", "3", "20"], **faulty)
    assert job.statuses == [0, 0, 0], job.errors
