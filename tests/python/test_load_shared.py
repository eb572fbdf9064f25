"""Shared reads: one rank reads the bytes that several ranks hold and sends them to the others. The values are those of separate reads, the
job reads each byte once, and no rank waits for a failed one."""

import bridge
import pytest

bridge.needs("torch", "safetensors")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import test_load_weights as loads  # noqa: E402
import test_torch_training as training  # noqa: E402
import tpplan  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from test_torch_training import CASES, graph_of, make  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402

NAMES = {"tp, biases, tied": 2, "fsdp x tp": 4, "grouped heads, fused, fsdp x tp": 4, "two model axes": 4}


def whole_bytes(manifest):
    """The bytes of the weights, each tensor once."""
    twins = {other for group in manifest.tied for other in group[1:]}
    kept = (t for path, t in manifest.parameters.items() if path not in twins)
    return sum(torch.Size(t.shape).numel() * getattr(torch, t.dtype).itemsize for t in kept)


def shares(rank, name, path, weights, ranks_of_job):
    case_, manifest = CASES[name], m.load_manifest(path)
    mesh, whole = mesh_of(manifest), make(CASES[name])
    expected = {n: p.detach().clone() for n, p in whole.named_parameters(remove_duplicate=False)}
    given = tpplan.Checkpoint(weights, share=True)
    model = bridge_torch.parallelize(loads.on_meta(case_), manifest, mesh, weights=given)
    training.check_pieces(model, manifest, rank, dict(expected))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().zero_()
            asked = [p.is_shard() + p.is_replicate() + p.is_partial() for p in parameter.placements]  # of Segments, too
            assert max(asked, default=0) <= 1
    told, steps = [], []
    done = tpplan.load(
        path, weights, into=model, share=True, on_module=told.append, progress=lambda *now: steps.append(now)
    )
    training.check_pieces(model, manifest, rank, dict(expected))
    assert told[-1] == "" and steps[-1][0] == steps[-1][1]
    assert set(done.paths) == set(manifest.parameters), (done.paths, done.left)
    read = torch.tensor([done.needed_bytes])
    torch.distributed.all_reduce(read)
    assert int(read) == whole_bytes(manifest), (int(read), whole_bytes(manifest))
    assert done.needed_bytes < whole_bytes(manifest)


@pytest.mark.parametrize("name", NAMES)
def test_each_byte_is_read_once_in_the_job(tmp_path, ranks, name):  # noqa: F811
    path = bridge.compile_manifest(tmp_path, graph_of(CASES[name]), CASES[name]["plan"])
    save_file({n: p.detach() for n, p in make(CASES[name]).named_parameters()}, tmp_path / "w.safetensors")
    ranks.run(NAMES[name], shares, name, str(path), str(tmp_path / "w.safetensors"), NAMES[name])


def fails(rank, path, weights, lacking):
    manifest = m.load_manifest(path)
    model = bridge_torch.parallelize(make(CASES["tp"]), manifest, mesh_of(manifest))
    before = {n: p.to_local().clone() for n, p in model.named_parameters()}
    mine = {0: pytest.raises(tpplan.LoadError, match="rank 1 cannot read its weights; that rank raises the error")}
    with mine.get(rank, pytest.raises(tpplan.LoadError, match="TP8022")):
        tpplan.load(path, weights if rank == 0 else lacking, into=model, share=True)
    assert all(torch.equal(p.to_local(), before[n]) for n, p in model.named_parameters())
    with mine.get(rank, pytest.raises(tpplan.ManifestError, match="`nothing.json`|No such file|cannot be read")):
        tpplan.load(path if rank == 0 else "nothing.json", weights, into=model, share=True)

    def on_module(module):
        if rank == 1:
            raise KeyError(module)

    with mine.get(rank, pytest.raises(KeyError)):
        tpplan.load(path, weights, into=model, share=True, on_module=on_module)
    some = dict(model.named_parameters())
    if rank == 1:
        del some["norm.weight"]
    with pytest.raises(tpplan.LoadError, match="ranks request different tensors"):
        tpplan.load(path, weights, into=some, share=True)
    with pytest.raises(tpplan.ManifestError, match="`share`: needs DTensors, but none are given"):
        tpplan.load(path, weights, into={"norm.weight": torch.zeros(16)}, share=True, rank=rank)
    with pytest.raises(tpplan.ManifestError, match="`share`: is given twice"):
        tpplan.load(path, tpplan.Checkpoint(weights, share=True), into=some, share=True)


def test_failed_rank_leaves_no_rank_waiting(tmp_path, ranks):  # noqa: F811
    ranks.run(2, fails, *loads.whole_and_lacking(tmp_path))


def test_other_bridges_reject_share(tmp_path):
    from tpplan.load_weights import read_new

    with pytest.raises(tpplan.ManifestError, match="`share`: needs a device mesh of torch"):
        read_new("manifest.json", tpplan.Checkpoint("w.safetensors", share=True), 0, torch.empty)
