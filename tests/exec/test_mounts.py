"""One rank only lacks a folder or has an old copy of it, as if a file server were not mounted on one node: the error names the rank and
its node, and no output is written."""

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
ODD = 1  # the rank that has other folders


def may_mount(folder):
    """True if this user may create mounts."""
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
    """On rank ODD, `shown` replaces the content of `hidden`."""
    own = f"mount --bind {folder / shown} {folder / hidden}"
    script = f"""[ "$OMPI_COMM_WORLD_RANK" = {ODD} ] || exec "$0" "$@"; exec unshare -m sh -c '{own}; exec "$0" "$@"' "$0" "$@" """
    return mpirun(3, "sh", "-c", script, EXECUTOR, *arguments, "--backend", "mpi", "--deadline", "20")


def flat(said):
    return " ".join(said.split())


@needs_mpi
@pytest.mark.parametrize("form", ["human", "jsonl"])
def test_weights_missing_on_one_rank(form, inputs):
    weights = inputs / "weights" / "w.safetensors"
    result = job(inputs, "weights", "empty", "load", inputs / "m.json", "--weights", weights, "--format", form)
    assert result.returncode != 0
    place = f"rank {ODD} failed at step 0 (before ranks connect, on {socket.gethostname()})"
    assert place in flat(result.stderr), result.stderr
    assert result.stderr.count("No such file or directory") == 1, result.stderr
    if form == "jsonl":
        finding = next(json.loads(line) for line in result.stderr.splitlines() if line.startswith('{"'))
        assert place in json.dumps(finding)


@needs_mpi
def test_stale_weights_on_one_rank(inputs):
    weights = inputs / "weights" / "w.safetensors"
    result = job(
        inputs, "weights", "stale", "save", inputs / "m.json", "--weights", weights, "-o", inputs / "out" / "s"
    )
    assert result.returncode != 0
    assert f'error[TP8006]: rank {ODD} has a different manifest or options than rank 0: "weights: ' in flat(
        result.stderr
    ), result.stderr
    assert os.listdir(inputs / "out") == []


@needs_mpi
@pytest.mark.parametrize("output", [["-o", "s"], ["--consolidated", "c.safetensors"]], ids=["folder", "file"])
def test_output_on_another_disk_of_one_rank(output, inputs):
    weights, path = inputs / "weights" / "w.safetensors", inputs / "out" / output[1]
    result = job(inputs, "out", "empty", "save", inputs / "m.json", "--weights", weights, output[0], path)
    assert result.returncode != 0
    said = flat(result.stderr)
    assert f"rank {ODD} failed at step " in said, result.stderr
    made = f"rank {ODD} does not see the files of rank 0: check that both use the same file system"
    assert made in said, result.stderr
    assert os.listdir(inputs / "out") == [] == os.listdir(inputs / "empty")
