"""Ranks with different weights or options do not start: the error names the rank that differs."""

import re

import pytest
from executor import EXECUTOR
from ranks import mpirun, needs_mpi
from weights import compile_manifest, random_tensors, write_file

SHAPES = {"m.a": ("float32", (8, 600)), "m.b": ("bfloat16", (4, 4))}


@pytest.fixture
def job(tmp_path):
    """job(weights of rank 0, weights of rank 1): the finished process of a job of two ranks."""
    manifest = compile_manifest(tmp_path, SHAPES, {"m.a": ["tp", None]}, {"tp": 2})

    def start(*weights):
        # One program that picks its weights by rank: Open MPI 5 crashes on two programs in one job where it sees no /sys.
        picks = tmp_path / "picks"
        picks.write_text('#!/bin/sh\nshift $OMPI_COMM_WORLD_RANK\nweights=$1\n' + f"exec {EXECUTOR} save {manifest} "
                         f'--weights "$weights" -o {tmp_path}/out --backend mpi --deadline 20\n')  # fmt: skip
        picks.chmod(0o755)
        return mpirun(2, picks, *weights)

    return start


@needs_mpi
def test_copies_of_one_checkpoint_agree(job, tmp_path):
    tensors = random_tensors(SHAPES)
    for name in ("a", "b"):
        write_file(tmp_path / name, tensors)
    result = job(tmp_path / "a", tmp_path / "b")
    assert result.returncode == 0, result.stderr


@needs_mpi
def test_stale_copy_names_the_rank_and_writes_nothing(job, tmp_path):
    write_file(tmp_path / "new", random_tensors(SHAPES))
    stale = bytearray((tmp_path / "new").read_bytes())
    stale[-12000:] = bytes(
        (byte + 1) % 256 for byte in stale[-12000:]
    )  # another step of training: same header and size
    (tmp_path / "stale").write_bytes(bytes(stale))
    result = job(tmp_path / "new", tmp_path / "stale")
    assert result.returncode != 0 and "TP8006" in result.stderr, result.stderr
    assert "rank 1 has a different manifest or options than rank 0" in result.stderr and "samples" in result.stderr
    assert not (tmp_path / "out").exists()


# Wrong inputs of some ranks of three: the ranks, a part of the message, the code.
BEFORE_THEY_MEET = {
    "the weights of all": ("*", "load m.json --weights nothing", "TP1001"),
    "the weights of one": ("1", "load m.json --weights nothing", "TP1001"),
    "the manifest of all": ("*", "load w --weights w", "TP1003"),
    "the mesh of all": ("*", "load other.json --weights w", "TP8003"),
    "the mesh of one": ("2", "load other.json --weights w", "TP8003"),
}


@needs_mpi
@pytest.mark.parametrize("what", BEFORE_THEY_MEET)
def test_setup_error_of_one_rank_is_printed_once(what, tmp_path):
    """Also if one rank only has the error, and the launcher ends the job as soon as one rank has ended."""
    ranks, words, code = BEFORE_THEY_MEET[what]
    for name, ways in (("m.json", 3), ("other.json", 2)):
        compile_manifest(tmp_path, SHAPES, {"m.a": [None, "tp"]}, {"tp": ways}, name)
    write_file(tmp_path / "w", random_tensors(SHAPES))
    script = tmp_path / "start"
    common = "--backend mpi --deadline 20 --quiet"
    script.write_text(
        f"#!/bin/sh\ncd {tmp_path}\ncase $OMPI_COMM_WORLD_RANK in {ranks}) exec {EXECUTOR} {words} {common};; "
        f"*) exec {EXECUTOR} load m.json --weights w {common};; esac\n"
    )
    script.chmod(0o755)
    result = mpirun(3, script)
    assert result.returncode != 0
    assert re.findall(r"error\[(\w+)\]", result.stderr) == [code], result.stderr
