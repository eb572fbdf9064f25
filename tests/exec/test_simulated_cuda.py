"""GPU code on simulated GPUs (simulated_cuda.cc): memory belongs to a GPU, work is done as late as CUDA may do it, and any call may fail
or hang. This proves nothing about CUDA itself; test_gpu.py does, with a GPU."""

import os
import pathlib
import subprocess

import pytest
from executor import LAUNCHERS, succeeds
from nccl_job import run_on_stand_in
from ranks import mpirun, needs_mpi
from small_models import plan
from weights import SPECS, compile_manifest, random_tensors, write_file
from conftest import linear_model, run, write

SIMULATED = str(pathlib.Path(os.environ["TPPLAN"]).parent / "tests" / "tpplan_exec_simulated")
NO_CUBLAS = {"TPPLAN_CUBLAS_LIBRARY": "/nowhere/libcublas.so"}
SHAPES = {
    "rows": ("float32", (10, 6)),
    "columns": ("bfloat16", (70, 1200)),
    "line": ("float64", (11,)),
    "scalar": ("float32", ()),
    "whole": ("bfloat16", (50, 30)),
    "thin": ("bfloat16", (3000, 6)),
}
MESH = {"fsdp": 1, "tp": 3}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    write_file(folder / "w.safetensors", random_tensors(SHAPES))
    compile_manifest(folder, SHAPES, {name: SPECS[name] for name in SHAPES if name in SPECS}, MESH, "m.json")
    model = linear_model(up=[6, 4], down=[4, 6])
    rules = {"up": "colwise", "down": "rowwise"}
    values = {"*": {"normal": {"mean": 0, "std": 1}}}
    files = write(folder, model, plan({"tp": 3}, rules, init=values))
    assert run("compile", *files, "-o", folder / "run.json").returncode == 0
    source = ["--weights", folder / "w.safetensors"]
    succeeds("save", folder / "m.json", *source, "-o", folder / "saved", "--consolidated", folder / "saved.safetensors")
    return folder


def alone(*arguments, **variables):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    command = [SIMULATED, *map(str, arguments), "--device", "cuda"]
    return subprocess.run(command, env=clean | NO_CUBLAS | variables, capture_output=True, text=True, timeout=60)


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def saves(inputs, out):
    """The arguments of a save with both outputs below `out`."""
    more = ["--weights", inputs / "w.safetensors", "-o", out / "shards", "--consolidated", out / "file"]
    return ["save", inputs / "m.json", *more, "--staging", "1MB"]


def check_saved(inputs, out):
    assert files(out / "shards") == files(inputs / "saved")
    assert (out / "file").read_bytes() == (inputs / "saved.safetensors").read_bytes()


def test_gpu_save_matches_cpu_save(inputs, tmp_path):
    result = alone(*saves(inputs, tmp_path))
    assert result.returncode == 0, result.stderr
    check_saved(inputs, tmp_path)
    result = alone("verify", inputs / "m.json", "--weights", inputs / "w.safetensors", "--from", tmp_path / "shards")
    assert result.returncode == 0, result.stderr


def test_redistributions_and_matmuls_match_the_unsharded_result(inputs):
    result = alone("run", inputs / "run.json", "--iterations", "1")
    assert result.returncode == 0, result.stderr


@needs_mpi
def test_every_thread_of_an_mpi_rank_uses_its_gpu(inputs, tmp_path):
    words = [*saves(inputs, tmp_path), "--backend", "mpi", "--device", "cuda"]
    result = mpirun(3, SIMULATED, *words, SIMULATED_GPUS=3, **NO_CUBLAS)
    assert result.returncode == 0, result.stderr
    check_saved(inputs, tmp_path)


def test_every_thread_of_an_nccl_rank_uses_its_gpu(inputs, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    words = [SIMULATED, *saves(inputs, out), "--backend", "nccl"]
    job = run_on_stand_in(tmp_path, 3, words, SIMULATED_GPUS="3", **NO_CUBLAS)
    assert job.statuses == [0, 0, 0], job.errors
    check_saved(inputs, out)


@pytest.mark.parametrize("command", ["save", "run", "init"])
def test_sticky_gpu_error_is_reported_at_any_call(command, inputs, tmp_path):
    """No file remains, and no signal ends the program: the cleanup calls fail, too."""
    failures = 0
    for call in [*range(1, 40), *range(40, 4000, 61)]:
        out = tmp_path / str(call)
        out.mkdir()
        words = {
            "save": saves(inputs, out),
            "run": ["run", inputs / "run.json", "--iterations", "1"],
            "init": ["init", inputs / "run.json", "--seed", "1", "-o", out / "shards"],
        }[command]
        result = alone(*words, SIMULATED_CUDA_FAULT=f"call={call}")
        if result.returncode == 0:
            break
        failures += 1
        assert result.returncode == 1, (call, result.returncode, result.stderr)
        assert "error[TP8011]: GPU 0: cudaErrorIllegalAddress" in result.stderr, (call, result.stderr)
        assert {path.name for path in out.iterdir()} <= {"shards"}, call  # the folder, before the file is complete
    assert failures > 20


@needs_mpi
@pytest.mark.parametrize("call", [8, 30, 45])
def test_other_ranks_report_the_gpu_error(call, inputs, tmp_path):
    words = [*saves(inputs, tmp_path), "--backend", "mpi", "--device", "cuda"]
    fault = {"SIMULATED_CUDA_FAULT": f"call={call},rank=1", "SIMULATED_GPUS": "3"}
    result = mpirun(3, SIMULATED, *words, **fault, **NO_CUBLAS)
    assert result.returncode != 0
    assert "error[TP8011]: GPU 1: cudaErrorIllegalAddress" in result.stderr, result.stderr
    assert "rank 1 failed at step " in result.stderr and "is disconnected" not in result.stderr, result.stderr


@pytest.mark.parametrize("call", [3, 12, 40])
def test_hanging_gpu_call_ends_the_job_in_time(call, inputs, tmp_path):
    result = alone(*saves(inputs, tmp_path), "--deadline", "3", SIMULATED_CUDA_FAULT=f"call={call},kind=hang")
    assert result.returncode == 1
    assert "GPU 0: error[TP8016]: cuda" in result.stderr and "has not returned for " in result.stderr, result.stderr
