"""A folder that one rank alone does not have, or has an old copy of, as where a file server is not mounted on one node: the rank and
its node are named, and nothing is written."""

import json
import os
import shutil
import socket
import subprocess

import pytest
from executor import EXECUTOR
from ranks import mpirun, needs_mpi
from weights import compile_manifest, random_tensors, write_file

SHAPES = {"m.a": ("float32", (64, 48)), "m.c": ("float32", (5,))}
ODD = 1  # the rank that sees other folders


def may_mount(folder):
    """Whether this user may have mounts of its own."""
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "none", folder]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def inputs(tmp_path):
    if not may_mount(tmp_path):
        pytest.skip("this user may not mount")
    for name in ("weights", "stale", "empty", "out"):
        (tmp_path / name).mkdir()
    tensors = random_tensors(SHAPES)
    write_file(tmp_path / "weights" / "w.safetensors", tensors)
    write_file(tmp_path / "stale" / "w.safetensors", random_tensors(SHAPES, seed=7))
    compile_manifest(tmp_path, SHAPES, {"m.a": ["tp", None]}, {"tp": 3}, "m.json")
    return tmp_path


def job(folder, hidden, shown, *arguments):
    """Where rank ODD has what is in `shown` in place of what is in `hidden`."""
    own = f"mount --bind {folder / shown} {folder / hidden}"
    script = f"""[ "$OMPI_COMM_WORLD_RANK" = {ODD} ] || exec "$0" "$@"; exec unshare -m sh -c '{own}; exec "$0" "$@"' "$0" "$@" """
    return mpirun(3, "sh", "-c", script, EXECUTOR, *arguments, "--backend", "mpi", "--deadline", "20")


def flat(said):
    return " ".join(said.split())


@needs_mpi
@pytest.mark.parametrize("form", ["human", "jsonl"])
def test_weights_that_one_rank_does_not_have(form, inputs):
    weights = inputs / "weights" / "w.safetensors"
    result = job(inputs, "weights", "empty", "load", inputs / "m.json", "--weights", weights, "--format", form)
    assert result.returncode != 0
    place = f"rank {ODD} failed at step 0 (before ranks meet, on {socket.gethostname()})"
    assert place in flat(result.stderr), result.stderr
    assert result.stderr.count("No such file or directory") == 1, result.stderr
    if form == "jsonl":
        finding = next(json.loads(line) for line in result.stderr.splitlines() if line.startswith('{"'))
        assert place in json.dumps(finding)


@needs_mpi
def test_weights_of_which_one_rank_has_an_old_copy(inputs):
    weights = inputs / "weights" / "w.safetensors"
    result = job(
        inputs, "weights", "stale", "save", inputs / "m.json", "--weights", weights, "-o", inputs / "out" / "s"
    )
    assert result.returncode != 0
    assert f'error[TP8006]: rank {ODD} does not agree with rank 0: "weights: ' in flat(result.stderr), result.stderr
    assert os.listdir(inputs / "out") == []


@needs_mpi
@pytest.mark.parametrize("output", [["-o", "s"], ["--consolidated", "c.safetensors"]], ids=["folder", "file"])
def test_an_output_that_one_rank_writes_elsewhere(output, inputs):
    weights, path = inputs / "weights" / "w.safetensors", inputs / "out" / output[1]
    result = job(inputs, "out", "empty", "save", inputs / "m.json", "--weights", weights, output[0], path)
    assert result.returncode != 0
    said = flat(result.stderr)
    assert f"rank {ODD} failed at step " in said, result.stderr
    made = f"what rank 0 has made there rank {ODD} does not find: see that both have the same file system there"
    assert made in said, result.stderr
    assert os.listdir(inputs / "out") == [] == os.listdir(inputs / "empty")
