"""FSDP units that are gathered in one buffer: the number of collectives, the memory between the passes, and steps with unused parameters
compared with one process. (Steps of many models: test_torch_training.py.)"""

import collections
import gc
import subprocess
import sys

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from bridge import mesh_of, ranks  # noqa: E402, F401
from conftest import ROOT  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402

PLAN = """format: tpplan.plan/1
mesh: {data: 2}
tp_plan: {}
data: {axes: [data]}
fsdp: {axis: data, min_weight_size: 0, policy: largest_dim, units: [blocks.*]}
"""
INNER = 22  # no other size in the model


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.idle = nn.Linear(8, INNER), nn.Linear(INNER, 8), nn.Linear(8, 8)
        self.up.bias.requires_grad_(False)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Model(nn.Module):
    """The head is tied to the embedding; a block has an unused layer, and a frozen bias."""

    def __init__(self, again=False):
        super().__init__()
        self.again, self.words = again, nn.Embedding(16, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return x @ self.words.weight.T


def make(again=False):
    torch.manual_seed(1)
    return Model(again).double()


def spread_of(path, again=False, units=None):
    manifest = m.load_manifest(path)
    return bridge_torch.parallelize(make(again), manifest, mesh_of(manifest), units=units)


def tokens():
    return torch.arange(16).view(2, 8)


class Calls:
    """Counts the calls of torch.distributed."""

    def __init__(self):
        self.counts = collections.Counter()

    def __enter__(self):
        self.before = {
            n: f for n, f in vars(torch.distributed).items() if n.startswith(("all_", "reduce_", "broadcast"))
        }
        for name, function in self.before.items():
            setattr(torch.distributed, name, self.counted(name, function))
        return self

    def counted(self, name, function):
        def call(*args, **kwargs):
            self.counts["gather" if "gather" in name else "scatter" if "scatter" in name else name] += 1
            return function(*args, **kwargs)

        return call

    def __exit__(self, *_):
        for name, function in self.before.items():
            setattr(torch.distributed, name, function)


def wholes():
    """The number of existing tensors with the full size of a block's weight."""
    gc.collect()
    shapes = {(INNER, 8), (8, INNER)}
    found = [o for o in gc.get_objects() if isinstance(o, torch.Tensor) and tuple(o.shape) in shapes]
    return sum(not isinstance(o, torch.distributed.tensor.DTensor) for o in found)


def is_economical(rank, path):
    model = spread_of(path)
    for step in range(2):
        with Calls() as calls:
            loss = model(tokens()).pow(2).sum()
            # The root and three blocks; no full tensor of a block exists between the passes.
            assert calls.counts == {"gather": 4} and wholes() == 0, (calls.counts, wholes())
            loss.backward()
        assert calls.counts == {"gather": 4 + 3, "scatter": 4}, calls.counts
        torch.optim.SGD(model.parameters(), 1e-3).step()
    with torch.no_grad(), Calls() as calls:
        model(tokens())
    assert calls.counts == {"gather": 4} and wholes() == 0


def is_right(rank, path):
    for again, units in ((False, None), (True, None), (False, False)):
        whole, model = make(again), spread_of(path, again, units)
        optimizers = [
            torch.optim.AdamW([p for p in one.parameters() if p.requires_grad], 1e-2) for one in (whole, model)
        ]
        for _ in range(3):
            for one, optimizer, part in zip((whole, model), optimizers, (tokens(), tokens()[[rank]])):
                optimizer.zero_grad()
                one(part).pow(2).sum().backward()
                optimizer.step()
            for name, parameter in whole.named_parameters():
                gradient = bridge_torch.full_tensor(model, name, gradient=True)
                assert (gradient is None) == (parameter.grad is None), (again, name)
                assert gradient is None or (gradient - parameter.grad).abs().max() < 1e-9, (again, name)
                assert (bridge_torch.full_tensor(model, name) - parameter).abs().max() < 1e-9, (again, name)


def says_what_changed(rank, path):
    model = spread_of(path)
    loss = model(tokens()).pow(2).sum()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    with pytest.raises(RuntimeError, match="`blocks.2.up.weight` or another one of its FSDP unit changed between"):
        loss.backward()


def says_what_was_replaced(rank, path):
    model = spread_of(path)
    model.blocks[1].up.weight = nn.Parameter(torch.zeros(INNER, 8).double())
    with pytest.raises(ValueError, match="`weight` of a Linear was replaced after the model was parallelized") as error:
        model(tokens())
    assert error.value.__notes__ == ["in module `blocks.1.up` (Linear, no rule), run by tpplan.torch"]


@pytest.mark.parametrize("what", [is_economical, is_right, says_what_changed, says_what_was_replaced])
def test_fsdp_unit(tmp_path, ranks, what):  # noqa: F811
    ranks.run(2, what, str(bridge.compile_manifest(tmp_path, torch_module.model_graph(make()), PLAN)))


def test_step_benchmark_compares_five_methods():
    bridge.needs("transformers")
    command = [sys.executable, ROOT / "tests/bench/bench_step.py", "--rounds", "1", "--layers", "1", "--hidden", "16"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    rows = [line.split("|")[1].strip() for line in found.stdout.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        "transformers, tp",
        "tpplan, tp",
        "fully_shard",
        "tpplan, fsdp, units",
        "tpplan, fsdp, parameter by parameter",
    ]
