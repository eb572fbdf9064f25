"""Training saved on one mesh and resumed on another, with optimizer and master weights: losses match one process without interruption.
Folders are converted by tpplan-exec reshard, or read directly."""

import math
import pathlib
import subprocess
import sys

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402

import test_torch_training as training  # noqa: E402
import tpplan  # noqa: E402
from apart import run_apart  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from conftest import EXECUTOR  # noqa: E402
from test_checkpoints import part_of, torch_clip  # noqa: E402
from test_torch_training import CASES, graph_of, make  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402

STEPS = 5  # before and after


class Masters:
    """An optimizer with copies of higher precision than the parameters."""

    def __init__(self, model):
        self.pairs = {path: (p, p.detach().clone().requires_grad_()) for path, p in model.named_parameters()}
        self.optimizer = torch.optim.AdamW([master for _, master in self.pairs.values()], lr=0.05, foreach=True)
        self.more = {"master": {path: master for path, (_, master) in self.pairs.items()}}

    def step(self):
        for parameter, master in self.pairs.values():
            master.grad = parameter.grad
        self.optimizer.step()
        for parameter, master in self.pairs.values():
            with torch.no_grad():
                parameter.copy_(master)


def adamw(**options):
    return lambda model: Plain(torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1, **options))


def momentum(model):
    named = dict(model.named_parameters())
    slow = [p for path, p in named.items() if "norm" in path]
    rest = [p for path, p in named.items() if "norm" not in path]
    return Plain(torch.optim.SGD([{"params": rest}, {"params": slow, "lr": 0.01}], lr=0.1, momentum=0.9))


class Plain:
    def __init__(self, optimizer):
        self.optimizer, self.more, self.step = optimizer, None, optimizer.step


TRAINERS = {"foreach": adamw(foreach=True), "fused": adamw(fused=True), "groups": momentum, "masters": Masters}
# The case that saves, the case that resumes, and the optimizer.
RUNS = [
    ("tp", "fsdp x tp, compose", "foreach"),
    ("uneven", "uneven fsdp x tp", "fused"),
    ("grouped heads, fused", "grouped heads, fused, fsdp x tp", "masters"),
    ("tp, biases, tied", "tp, biases, tied", "groups"),
]


def train(model, trainer, batch, count, steps, axes=()):
    losses = []
    for _ in range(steps):
        model.zero_grad()
        loss = training.loss_of(model, *batch, count)
        loss.backward()
        torch_clip(model)
        trainer.step()
        loss = loss.detach()
        for group in axes:
            torch.distributed.all_reduce(loss, group=group)
        losses.append(float(loss))
    return losses


def expected(name, kind, steps):
    model = make(CASES[name])
    trainer, (tokens, targets) = TRAINERS[kind](model), training.batch(CASES[name]["length"])
    return train(model, trainer, (tokens, targets), targets.numel(), steps), model, trainer


def begin(name, path, seed):
    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)
    model = bridge_torch.parallelize(make(CASES[name], seed=seed), manifest, mesh)
    tokens, targets = training.batch(CASES[name]["length"])
    cut = [axis for axis, _ in manifest.mesh if axis in (*manifest.data_axes, manifest.fsdp_axis)]
    groups = [mesh.get_group(axis) for axis in cut]
    return model, (part_of(manifest, mesh, tokens, targets), targets.numel()), groups


def alike(one, other):
    assert len(one) == len(other) and all(abs(a - b) < 1e-9 for a, b in zip(one, other)), (one, other)


def saves(rank, name, path, kind, folder):
    model, batch, groups = begin(name, path, 1)
    trainer = TRAINERS[kind](model)
    alike(train(model, trainer, *batch, STEPS, groups), expected(name, kind, STEPS)[0])
    bridge_torch.save_states(folder, model, trainer.optimizer, more=trainer.more)
    with pytest.raises((m.ManifestError, RuntimeError), match="already exists"):
        bridge_torch.save_states(folder, model, trainer.optimizer, more=trainer.more)


def goes_on(rank, name, path, saved, kind, folders):
    losses, whole, _ = expected(saved, kind, 2 * STEPS)
    for number, folder in enumerate(folders):
        model, batch, groups = begin(name, path, 9)
        trainer = TRAINERS[kind](model)
        if number:  # an optimizer with earlier state becomes the saved one, too
            train(model, trainer, *batch, 1, groups)
        for group in trainer.optimizer.param_groups:
            group["lr"] = 7.0
        bridge_torch.load_states(folder, model, trainer.optimizer, more=trainer.more)
        alike(train(model, trainer, *batch, STEPS, groups), losses[STEPS:])
        for path_, parameter in whole.named_parameters():
            assert (bridge_torch.full_tensor(model, path_) - parameter).abs().max() < 1e-9


@pytest.mark.parametrize("saved, name, kind", RUNS)
def test_training_resumes_on_another_mesh(tmp_path, ranks, saved, name, kind):  # noqa: F811
    def compiled(name, folder):
        (tmp_path / folder).mkdir()
        return bridge.compile_manifest(tmp_path / folder, graph_of(CASES[name]), CASES[name]["plan"])

    one, other, folder = compiled(saved, "one"), compiled(name, "other"), tmp_path / "step-5"
    ranks.run(math.prod(CASES[saved]["mesh"].values()), saves, saved, str(one), kind, str(folder))
    states = []
    for manifest in (one, other):
        states.append(manifest.parent / "states.json")
        command = [sys.executable, "-m", "tpplan.states", manifest, "--of", folder, "-o", states[-1]]
        subprocess.run(list(map(str, command)), check=True)
    moved = tmp_path / "moved"
    subprocess.run([EXECUTOR, "verify", states[0], "--from", folder, "--weights", folder, "-q"], check=True)
    subprocess.run([EXECUTOR, "reshard", *states, "--from", folder, "--to", moved, "-q"], check=True)
    folders = [str(moved), str(folder)]
    ranks.run(math.prod(CASES[name]["mesh"].values()), goes_on, name, str(other), saved, kind, folders)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["moved", "one", "other", "step-5"]


def refuses(rank, path, folder):
    model, batch, groups = begin("tp", path, 1)
    trainer = TRAINERS["foreach"](model)
    train(model, trainer, *batch, 1, groups)
    with pytest.raises((m.ManifestError, RuntimeError), match="trains a tensor of shape .* that is not a parameter"):
        bridge_torch.save_states(folder, model, torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))]))
    with pytest.raises(m.ManifestError, match="`norm.weight`: is given twice"):
        bridge_torch.save_states(folder, model, more={"norm": {"weight": torch.zeros(3)}})
    with pytest.raises(m.ManifestError, match="is not parallelized"):
        bridge_torch.save_states(folder, make(CASES["tp"]))
    blocked = pathlib.Path(folder).parent / "file"
    with pytest.raises((m.ManifestError, RuntimeError), match="cannot be created"):
        bridge_torch.save_states(blocked / "below", model)
    bridge_torch.save_states(folder, model, trainer.optimizer)
    before = {path: p.detach().clone() for path, p in model.named_parameters()}
    train(model, trainer, *batch, 1, groups)
    changed = {path: p.detach().clone() for path, p in model.named_parameters()}
    groups_ = TRAINERS["groups"](model).optimizer
    with pytest.raises(m.ManifestError, match="different parameter groups"):
        bridge_torch.load_states(folder, model, groups_)
    few = torch.optim.AdamW([model.norm.weight])
    with pytest.raises(m.ManifestError, match="different parameter groups"):
        bridge_torch.load_states(folder, model, few)
    more = {"master": {"norm.weight": torch.zeros(16).double()}}
    with pytest.raises(m.ManifestError, match="`master.norm.weight`: is not in the checkpoint"):
        bridge_torch.load_states(folder, model, trainer.optimizer, more=more)
    assert all(torch.equal(p.to_local(), changed[path].to_local()) for path, p in model.named_parameters())
    bridge_torch.load_states(folder, model)
    assert all(torch.equal(p.to_local(), before[path].to_local()) for path, p in model.named_parameters())
    # the saved model is a checkpoint
    with pytest.warns(tpplan.LoadWarning, match="that the manifest lacks"):
        tpplan.load(path, folder, into=model)


def test_save_and_load_errors_name_the_cause_and_change_nothing(tmp_path, ranks):  # noqa: F811
    path = bridge.compile_manifest(tmp_path, graph_of(CASES["tp"]), CASES["tp"]["plan"])
    (tmp_path / "file").write_text("")
    before = {p.name for p in tmp_path.iterdir()}
    ranks.run(2, refuses, str(path), str(tmp_path / "states"))
    assert {p.name for p in tmp_path.iterdir()} == before | {"states"}


def test_jax_resumes_on_another_mesh(tmp_path):
    bridge.needs("jax", "equinox", "flax", "optax")
    run_apart("jax_checks", "resumed_training", tmp_path)
