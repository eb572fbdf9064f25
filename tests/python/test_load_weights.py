"""tpplan.load and the `weights` of the bridges: libtpplan_load reads checkpoints directly into tensors of torch and JAX, from files and
from folders that another mesh saved. Values and training match one process."""

import math
import os
import re
import subprocess
import sys

import bridge
import pytest

bridge.needs("torch", "safetensors")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import test_torch_training as training  # noqa: E402
import tpplan  # noqa: E402
from apart import run_apart  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from conftest import EXECUTOR, PROGRAM, ROOT  # noqa: E402
from test_torch_training import CASES, graph_of, make  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402

# A case, and the case whose mesh wrote the folder.
RUNS = {
    "tp, biases, tied": "tp, biases, tied",
    "fsdp x tp": "tp",
    "uneven fsdp x tp": "uneven",
    "grouped heads, fused, fsdp x tp": "grouped heads, fused",
    "two model axes": "two model axes",
}


def on_meta(case_):
    """The model on the meta device; only tensors that are in no checkpoint and have no initialiser are real."""
    with torch.device("meta"):
        model = case_["model"](**case_["kwargs"]).double()
    model.rotary = make(case_).rotary
    return model


def fills(rank, name, path, files):
    case_, manifest = CASES[name], m.load_manifest(path)
    mesh, whole = mesh_of(manifest), make(CASES[name])
    for weights in files:
        expected = {n: p.detach().clone() for n, p in whole.named_parameters(remove_duplicate=False)}
        model = bridge_torch.parallelize(on_meta(case_), manifest, mesh, weights=weights)
        training.check_pieces(model, manifest, rank, expected)
        # into the existing tensors: their memory remains, and inner modules are reported before outer ones
        places, told = [p.to_local().data_ptr() for p in model.parameters()], []
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.to_local().zero_()

        def on_module(module):
            told.append(module)
            below = [n for n, _ in whole.named_parameters() if n.startswith(f"{module}." if module else "")]
            for n in below:
                own = model.get_parameter(n).to_local()
                assert torch.equal(own, expected[n]), (module, n)  # check_pieces compares the shards

        done = tpplan.load(path, weights, into=model, on_module=on_module)
        assert places == [p.to_local().data_ptr() for p in model.parameters()]
        assert told[-1] == "" and told.index("layers.0.mlp.up_proj") < told.index("layers.0.mlp") < told.index(
            "layers.0"
        )
        assert set(done.paths) == set(manifest.parameters)
        own = {path: p.to_local() for path, p in model.named_parameters()}
        assert done.needed_bytes == sum(p.numel() * p.element_size() for p in own.values())
    tokens, targets = training.batch(case_["length"])
    count, plain = targets.numel(), training.loss_of(whole, *training.batch(case_["length"]), targets.numel())
    for axis, size in manifest.mesh:
        if axis in (*manifest.data_axes, manifest.fsdp_axis):
            index = mesh.get_local_rank(axis)
            tokens, targets = tokens.chunk(size)[index], targets.chunk(size)[index]
    loss = training.loss_of(model, tokens, targets, count)
    loss.backward()
    loss = loss.detach()
    for axis, _ in manifest.mesh:
        if axis in (*manifest.data_axes, manifest.fsdp_axis):
            torch.distributed.all_reduce(loss, group=mesh.get_group(axis))
    assert abs(loss - plain) < 1e-9


@pytest.mark.parametrize("name", RUNS)
def test_model_loads_from_files_and_folders_of_other_meshes(tmp_path, ranks, name):  # noqa: F811
    whole = make(CASES[name])
    (tmp_path / "other").mkdir()
    path = bridge.compile_manifest(tmp_path, graph_of(CASES[name]), CASES[name]["plan"])
    other = bridge.compile_manifest(tmp_path / "other", graph_of(CASES[name]), CASES[RUNS[name]]["plan"])
    tied = [group[1:] for group in m.load_manifest(path).tied]
    kept = {n: p for n, p in whole.state_dict().items() if n not in sum(map(list, tied), [])}
    save_file(kept, tmp_path / "model.safetensors")
    saved = [EXECUTOR, "save", other, "--weights", tmp_path / "model.safetensors", "-o", tmp_path / "saved", "-q"]
    subprocess.run(saved, check=True)
    save_file({f"old.{n}": p for n, p in kept.items()}, tmp_path / "old.safetensors")
    old = tpplan.Checkpoint(str(tmp_path / "old.safetensors"), rename={r"^old\.": ""})
    files = [str(tmp_path / "model.safetensors"), str(tmp_path / "saved"), old]
    ranks.run(math.prod(CASES[name]["mesh"].values()), fills, name, str(path), files)


def refuses(rank, path, weights, lacking):
    manifest = m.load_manifest(path)
    mesh, case_ = mesh_of(manifest), CASES["tp"]
    whole = make(case_)
    before = {n: p.detach().clone() for n, p in whole.named_parameters()}
    # only one rank cannot read: all raise, and no rank waits for another
    with pytest.raises(tpplan.LoadError, match=r"TP8022" if rank == 1 else "rank 1 cannot read its weights"):
        bridge_torch.parallelize(whole, manifest, mesh, weights=lacking if rank == 1 else weights)
    with pytest.raises(m.ManifestError, match="pass only one of them"):
        bridge_torch.parallelize(whole, manifest, mesh, weights=weights, shards={})
    assert all(torch.equal(p, before[n]) for n, p in whole.named_parameters())
    model = bridge_torch.parallelize(whole, manifest, mesh)
    with pytest.raises(m.ManifestError, match="`extra`: is not in the manifest"):
        tpplan.load(path, weights, into={"extra": torch.zeros(2)})
    with pytest.raises(
        m.ManifestError, match=r"`norm.weight`: is \[16\] float32, but this rank's shard is \[16\] float64"
    ):
        tpplan.load(path, weights, rank=rank, into={"norm.weight": torch.zeros(16)})
    with pytest.raises(m.ManifestError, match="`head.weight`: is not contiguous"):
        tpplan.load(path, weights, rank=rank, into={"head.weight": torch.zeros(16, 16).double().t()})
    with pytest.raises(m.ManifestError, match="parameter `norm.weight`: is not in the model"):
        del model.norm.weight
        tpplan.load(path, weights, into=model)


def whole_and_lacking(folder):
    """Paths of a manifest, the weights of its model, and weights without one tensor."""
    path = bridge.compile_manifest(folder, graph_of(CASES["tp"]), CASES["tp"]["plan"])
    state = make(CASES["tp"]).state_dict()
    save_file(state, folder / "model.safetensors")
    save_file({n: t for n, t in state.items() if n != "norm.weight"}, folder / "lacking.safetensors")
    return str(path), str(folder / "model.safetensors"), str(folder / "lacking.safetensors")


def test_mismatch_is_rejected_on_every_rank(tmp_path, ranks):  # noqa: F811
    ranks.run(2, refuses, *whole_and_lacking(tmp_path))


def test_jax_arrays_use_the_memory_of_the_read(tmp_path):
    bridge.needs("jax", "equinox", "flax", "optax")
    run_apart("jax_checks", "loaded_weights", tmp_path)


def test_loader_benchmark_compares_all_loaders():
    script, names = ROOT / "tests/bench/bench_loaders.py", ["tpplan.load", "safetensors, get_slice"]
    command = [sys.executable, script, "--size", "2MiB", "--rounds", "1", "--loaders", *names]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ | {"TPPLAN": PROGRAM})
    assert result.returncode == 0, result.stderr
    _, _, *rows = result.stdout.splitlines()
    assert len(rows) == 2 and all(re.fullmatch(r" +[\d.]+ +[\d.]+ +\d+", row[44:]) for row in rows), rows
    assert "bench_loaders.py" in (ROOT / "tools/python/README.md").read_text()
    env = os.environ | {"TPPLAN": PROGRAM, "TPPLAN_LOAD": "/nowhere.so"}
    result = subprocess.run(command[:-1], capture_output=True, text=True, timeout=200, env=env)
    assert result.returncode == 1 and "nothing was measured" in result.stderr
    assert "not here: " in result.stdout and "cannot be loaded: /nowhere.so" in result.stdout
