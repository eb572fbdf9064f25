"""Training, saving and resuming with torch's tools: AdamW (foreach, fused), clip_grad_norm_, distributed checkpoints, full and sharded
state dicts, on the same mesh and on others. Separately sharded segments are correct in all of them."""

import math

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint.state_dict import (  # noqa: E402
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.tensor import DTensor  # noqa: E402

import test_torch_training as training  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from test_torch_training import CASES, make  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402

RUNS = [
    ("tp, biases, tied", "foreach"),
    ("sequence", "foreach"),
    ("fsdp x tp, dim 0", "fused"),
    ("data x tp", "fused"),
    ("two model axes", "foreach"),
    ("uneven fsdp x tp", "foreach"),
    ("uneven fsdp x tp", "fused"),
    ("fused", "foreach"),
    ("fused, fsdp x tp", "fused"),
    ("grouped heads, fused", "foreach"),
    ("grouped heads, fused", "fused"),
    ("grouped heads, fused, fsdp x tp", "foreach"),
    ("grouped heads, fused, fsdp x tp", "fused"),
]
# The mesh that reads the checkpoint of a case.
OTHER = {
    "fused, fsdp x tp": "fused",
    "fused": "fused, fsdp x tp",
    "grouped heads, fused": "grouped heads, fused, fsdp x tp",
    "grouped heads, fused, fsdp x tp": "grouped heads, fused",
}


def optimizer_of(model, kind):
    return torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1, **{kind: True} if kind else {})


def step(model, optimizer, tokens, targets, count, clip):
    optimizer.zero_grad()
    training.loss_of(model, tokens, targets, count).backward()
    norm = clip(model)
    optimizer.step()
    return norm


def torch_clip(model):
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def part_of(manifest, mesh, tokens, targets):
    for axis, size in manifest.mesh:
        if axis in (*manifest.data_axes, manifest.fsdp_axis):
            index = mesh.get_local_rank(axis)
            tokens, targets = tokens.chunk(size)[index], targets.chunk(size)[index]
    return tokens, targets


def same(model, reference):
    for path in training.names_of(model):
        parameter = model.get_parameter(path)
        whole = reference.get_parameter(path)
        assert (parameter.full_tensor() - whole).abs().max() < 1e-9, path
        assert (bridge_torch.full_tensor(model, path) - whole).abs().max() < 1e-9, path


def saves(rank, name, path, kind, folder):
    """Two steps, then a checkpoint of model and optimizer."""
    case_, manifest = CASES[name], m.load_manifest(path)
    mesh = mesh_of(manifest)
    tokens, targets = training.batch(case_["length"])
    reference, model = make(case_), bridge_torch.parallelize(make(case_), manifest, mesh)
    ours, theirs = optimizer_of(model, kind), optimizer_of(reference, kind)
    part = part_of(manifest, mesh, tokens, targets)
    for _ in range(2):
        expected = step(reference, theirs, tokens, targets, targets.numel(), torch_clip)
        found = step(model, ours, *part, targets.numel(), torch_clip)
        assert expected > 0.5 and abs(expected - found) < 1e-9, (expected, found)
        same(model, reference)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    for key, value in reference.state_dict().items():
        assert type(whole[key]) is torch.Tensor and (whole[key] - value).abs().max() < 1e-9, key
    state, optimizer_state = get_state_dict(model, ours)
    dcp.save({"model": state, "optimizer": optimizer_state}, checkpoint_id=folder)
    torch.save(model.state_dict(), f"{folder}-{rank}.pt")
    again = torch.load(f"{folder}-{rank}.pt", weights_only=False)
    assert all(torch.equal(a.to_local(), again[n].to_local()) for n, a in model.state_dict().items())


def resumes(rank, name, path, saved, kind, folder):
    """On any mesh, the third step matches that of one process without interruption."""
    case_, manifest = CASES[name], m.load_manifest(path)
    mesh = mesh_of(manifest)
    tokens, targets = training.batch(case_["length"])
    reference = make(CASES[saved])
    theirs = optimizer_of(reference, kind)
    for _ in range(2):
        step(reference, theirs, tokens, targets, targets.numel(), torch_clip)
    model = bridge_torch.parallelize(make(case_, seed=9), manifest, mesh)
    ours = optimizer_of(model, kind)
    state, optimizer_state = get_state_dict(model, ours)
    dcp.load({"model": state, "optimizer": optimizer_state}, checkpoint_id=folder)
    set_state_dict(model, ours, model_state_dict=state, optim_state_dict=optimizer_state)
    same(model, reference)
    part = part_of(manifest, mesh, tokens, targets)
    step(reference, theirs, tokens, targets, targets.numel(), torch_clip)
    step(model, ours, *part, targets.numel(), torch_clip)
    same(model, reference)


def read_whole(rank, saved, kind, folder):
    """The checkpoint, read by one process without a mesh."""
    if rank:
        return
    reference = make(CASES[saved])
    theirs = optimizer_of(reference, kind)
    tokens, targets = training.batch(CASES[saved]["length"])
    for _ in range(2):
        step(reference, theirs, tokens, targets, targets.numel(), torch_clip)
    found = make(CASES[saved], seed=9).state_dict()
    dcp.load({"model": found}, checkpoint_id=folder, no_dist=True)
    for key, value in reference.state_dict().items():
        assert (found[key] - value).abs().max() < 1e-9, key


@pytest.mark.parametrize("name, kind", RUNS)
def test_checkpoint_resumes_on_other_meshes_and_one_process(tmp_path, ranks, name, kind):  # noqa: F811
    def compiled(name):
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir(exist_ok=True)
        case_ = CASES[name]
        found = bridge.compile_manifest(folder, training.graph_of(case_), case_["plan"])
        return math.prod(case_["mesh"].values()), str(found)

    folder = str(tmp_path / "checkpoint")
    count, path = compiled(name)
    ranks.run(count, saves, name, path, kind, folder)
    ranks.run(count, read_whole, name, kind, folder)
    for other in {name, OTHER.get(name, name)}:
        count, path = compiled(other)
        ranks.run(count, resumes, other, path, name, kind, folder)


def refuses(rank, path):
    """Operations that would mix up elements raise with the parameter's name, and change nothing."""
    case_, manifest = CASES["grouped heads, fused"], m.load_manifest(path)
    mesh = mesh_of(manifest)
    model = bridge_torch.parallelize(make(case_), manifest, mesh)
    weight = model.layers[0].self_attn.qkv_proj.weight
    name = "layers.0.self_attn.qkv_proj.weight"
    other = model.layers[0].mlp.gate_proj.weight
    before = weight.full_tensor().detach()
    for function in (
        lambda: weight.detach().t(),
        lambda: weight.detach()[:2],
        lambda: torch.nn.functional.linear(other.detach(), weight.detach()),
        lambda: weight.detach().sum(0),
        lambda: weight.detach() + torch.distributed.tensor.zeros(weight.shape, device_mesh=mesh, dtype=weight.dtype),
        lambda: weight.redistribute(placements=[torch.distributed.tensor.Shard(1)]),
        lambda: torch.distributed.tensor.distribute_tensor(before, mesh, weight.placements),
    ):
        with pytest.raises((ValueError, RuntimeError), match=name):
            function()
    whole = {k: v.clone() for k, v in make(case_, seed=4).state_dict().items()}
    with pytest.raises(RuntimeError, match=name):
        set_model_state_dict(model, whole, options=StateDictOptions(full_state_dict=True))
    model.load_state_dict(whole)  # the call that the error suggests
    assert torch.equal(weight.full_tensor(), whole[name])
    assert torch.equal(weight.redistribute(placements=[torch.distributed.tensor.Replicate()]).to_local(), whole[name])
    assert (weight.detach().norm() - whole[name].norm()).full_tensor().abs() < 1e-12
    assert (weight.detach().abs().max() - whole[name].abs().max()).full_tensor().abs() < 1e-12


def test_calls_that_mix_up_elements_are_rejected(tmp_path, ranks):  # noqa: F811
    case_ = CASES["grouped heads, fused"]
    ranks.run(2, refuses, str(bridge.compile_manifest(tmp_path, training.graph_of(case_), case_["plan"])))


def saves_packed(rank, name, path, folder):
    from test_transformers import TRAINED
    from tpplan.export import transformers_model

    def make_one(seed):
        torch.manual_seed(seed)
        return transformers_model.build(name, TRAINED[name], "cpu")

    reference, manifest = make_one(1), m.load_manifest(path)
    model = bridge_torch.parallelize(make_one(1), manifest, mesh_of(manifest))
    dcp.save(get_model_state_dict(model), checkpoint_id=folder)
    found = make_one(2).state_dict()
    dcp.load(found, checkpoint_id=folder, no_dist=True)
    again = bridge_torch.parallelize(make_one(3), manifest, mesh_of(manifest))
    sharded = get_model_state_dict(again)
    dcp.load(sharded, checkpoint_id=folder)
    set_model_state_dict(again, sharded)
    for path, whole in reference.state_dict().items():
        assert torch.equal(found[path], whole), path
        assert torch.equal(again.state_dict()[path].full_tensor(), whole), path


@pytest.mark.parametrize("name", ["MixtralForCausalLM", "DeepseekV3ForCausalLM"])
def test_packed_experts_of_transformers_are_saved(tmp_path, ranks, name):  # noqa: F811
    bridge.needs("transformers")
    from test_transformers import TRAINED
    from tpplan import plans
    from tpplan.export import torch_module, transformers_model

    model = transformers_model.build(name, TRAINED[name])
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(model), plans.transformers_plan(model, {"tp": 2}))
    ranks.run(2, saves_packed, name, str(path), str(tmp_path / "checkpoint"))
