"""On GPUs: the same bytes as on the CPU. Skipped without a GPU."""

import json
import re
import subprocess

import pytest
from executor import EXECUTOR, ROOT, execute, run, succeeds
from nccl_job import COLLECTIVES, DEVICE, RANKS, run_alone, run_ranks
from weights import SPECS, compile_manifest, random_tensors, write_file

_probe = subprocess.run([DEVICE, "cuda", "find"], capture_output=True, text=True)
if _probe.returncode != 0:
    pytest.skip(f"skipped: no GPU: {_probe.stdout.strip()}", allow_module_level=True)

GPUS = len(
    [
        line
        for line in subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines()
        if line.startswith("GPU")
    ]
)
DOCTOR = succeeds("doctor").stdout
needs_nccl = pytest.mark.skipif("cannot load NCCL" in DOCTOR, reason="skipped: no NCCL (libnccl.so.2)")

SHAPES = {
    "rows": ("float32", (10, 6)),
    "columns": ("bfloat16", (70, 1200)),
    "both": ("int16", (9, 10)),
    "stacked": ("float16", (3, 8, 10)),
    "line": ("float64", (11,)),
    "scalar": ("float32", ()),
    "whole": ("bool", (50, 30)),
    "large": ("bfloat16", (3000, 500)),
    "thin": ("uint8", (3000, 7)),
}


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_gpu_copies_reductions_and_matmuls_match_cpu():
    assert "cuda agrees with cpu" in run_alone([DEVICE, "cuda"])


def test_gpu_matmuls_without_cublas_match_cpu():
    assert "cuda agrees with cpu" in run_alone([DEVICE, "cuda"], TPPLAN_CUBLAS_LIBRARY="/nowhere/libcublas.so")


@pytest.mark.parametrize("world", [1, 3, 4])
def test_local_collectives_on_one_gpu_match_cpu(world):
    assert run_alone([COLLECTIVES, "local", "cuda", world, 60]) == run_alone([COLLECTIVES, "local", "cpu", world, 60])


@pytest.mark.parametrize("mesh, what", [("2x2", "cases"), ("5", "cases"), ("2x4", "sizes")])
def test_redistributions_on_one_gpu_match_cpu(mesh, what):
    assert run_alone([RANKS, "local", mesh, what, 60], TPPLAN_EXEC_DEVICE="cuda") == run_alone(
        [RANKS, "local", mesh, what, 60], TPPLAN_EXEC_DEVICE="cpu"
    )


@pytest.mark.parametrize("mesh", [{"fsdp": 1, "tp": 1}, {"fsdp": 1, "tp": 3}, {"fsdp": 2, "tp": 2}], ids=str)
def test_weights_loaded_on_one_gpu_match_cpu(mesh, tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, mesh)
    for device in ("cuda", "cpu"):
        succeeds(
            "save",
            manifest,
            "--weights",
            tmp_path / "w.safetensors",
            "-o",
            tmp_path / device,
            "--consolidated",
            tmp_path / f"{device}.one",
            "--device",
            device,
            "--staging",
            "1MB",
        )
    assert files(tmp_path / "cuda") == files(tmp_path / "cpu")
    assert (tmp_path / "cuda.one").read_bytes() == (tmp_path / "cpu.one").read_bytes()
    succeeds("load", manifest, "--weights", tmp_path / "w.safetensors", "--device", "cuda")
    succeeds("verify", manifest, "--weights", tmp_path / "w.safetensors", "--device", "cuda")


@pytest.fixture(scope="module")
def llama_manifest(tmp_path_factory):
    """Two layers of Llama 3 with every size divided by 32, sharded over eight ranks by the plan of the library."""
    folder = tmp_path_factory.mktemp("llama")
    model = json.loads((ROOT / "plans" / "models" / "llama-3-8b.json").read_text())
    model["modules"] = [m for m in model["modules"] if not re.match(r"model\.layers\.([2-9]|\d\d)", m["path"])]
    for module in model["modules"]:
        for parameter in module.get("parameters", {}).values():
            parameter["shape"] = [size // 32 for size in parameter["shape"]]
        if "attributes" in module:
            module["attributes"]["head_dim"] //= 32
    (folder / "model.json").write_text(json.dumps(model))
    result = run("compile", folder / "model.json", ROOT / "plans" / "llama.yaml", "-o", folder / "manifest.json")
    assert result.returncode == 0, result.stderr.decode()
    return folder / "manifest.json"


def test_init_on_one_gpu_matches_cpu(llama_manifest, tmp_path):
    for device in ("cuda", "cpu"):
        succeeds("init", llama_manifest, "--seed", "7", "--consolidated", tmp_path / device, "--device", device)
    assert (tmp_path / "cuda").read_bytes() == (tmp_path / "cpu").read_bytes()


def test_manifest_steps_run_correctly_on_one_gpu(llama_manifest):
    succeeds("run", llama_manifest, "--device", "cuda", "--iterations", "2", "--json")


def test_too_large_manifest_is_rejected_before_reading(tmp_path):
    shapes = {"huge": ("float32", (1 << 20, 1 << 20))}
    manifest = compile_manifest(tmp_path, shapes, {"huge": ["tp", None]}, {"tp": 2})
    result = execute("init", manifest, "--seed", "1", "--device", "cuda")
    assert result.returncode == 3, result.stderr
    assert "free" in result.stderr


def test_doctor_names_driver_gpus_and_libraries():
    assert all(name in DOCTOR for name in ("NVIDIA driver", "GPU 0", "compute capability", "NCCL", "cuBLAS")), DOCTOR


@needs_nccl
def test_nccl_collectives_match_local():
    job = run_ranks(GPUS, [COLLECTIVES, "nccl", "cuda", GPUS, 60], timeout=300)
    assert job.statuses == [0] * GPUS, job.errors
    assert job.outputs[0] == run_alone([COLLECTIVES, "local", "cpu", GPUS, 60])


@needs_nccl
def test_nccl_loads_the_weights_that_local_loads(tmp_path):
    write_file(tmp_path / "w.safetensors", random_tensors(SHAPES))
    manifest = compile_manifest(tmp_path, SHAPES, SPECS, {"fsdp": 1, "tp": GPUS})
    save = ["save", manifest, "--weights", tmp_path / "w.safetensors", "-o"]
    job = run_ranks(GPUS, [EXECUTOR, *save, tmp_path / "nccl", "--backend", "nccl"], timeout=300)
    assert job.statuses == [0] * GPUS, job.errors
    succeeds(*save, tmp_path / "local")
    assert files(tmp_path / "nccl") == files(tmp_path / "local")


@needs_nccl
@pytest.mark.skipif(GPUS < 2, reason="skipped: one GPU")
def test_other_ranks_name_the_failed_rank():
    job = run_ranks(
        2, [COLLECTIVES, "nccl", "cuda", 2, 5], {"TPPLAN_EXEC_FAULT": "rank=1,step=9,kind=throw"}, timeout=60
    )
    assert job.statuses == [1, 1]
    assert all("rank 1 failed at step 9" in error for error in job.errors), job.errors


@needs_nccl
def test_two_ranks_on_one_gpu_are_rejected_with_the_reason():
    job = run_ranks(
        2, [COLLECTIVES, "nccl", "cuda", 2, 30], {"CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "WARN"}, timeout=120
    )
    assert job.statuses == [2, 2]
    assert any("ncclCommInitRankConfig" in error for error in job.errors), job.errors


def test_doctor_json_is_valid():
    json.loads(succeeds("doctor", "--json").stdout)
