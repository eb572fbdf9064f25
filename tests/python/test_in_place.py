"""In-place changes of the output of a parallelized module: outputs and gradients match one process, or autograd raises its usual error."""

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402


def added(self, x):
    y = self.up(x)
    y += 1
    y = self.down(y)
    y += x
    y *= 2
    return y


def activated(self, x):
    y = F.dropout(self.up(x), 0.0, inplace=True)
    return F.relu_(self.down(F.relu(y, inplace=True))) + x


def masked(self, x):
    y = self.down(F.relu(self.up(x)))
    y[:, 0] += 1
    y.masked_fill_(y < 0, 0.5).clamp_(max=2.0)
    y.transpose(0, 1).mul_(2.0)
    y.view(-1).sub_(1)
    return y


def looked_up(self, x):
    y = self.words(torch.arange(8).view(2, 4))
    y *= 3.0
    y += x
    return self.down(self.up(y))


def needed(self, x):
    return self.wide(x).mul_(2)


class Saving(nn.Linear):
    """A module whose output is saved for its backward."""

    def forward(self, x):
        return torch.sigmoid(super().forward(x))


class Model(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.code, self.words = code, nn.Embedding(8, 8)
        self.up, self.down, self.wide = nn.Linear(8, 16), nn.Linear(16, 8), Saving(8, 16)

    def forward(self, x):
        return self.code(self, x)


CODES = (added, activated, masked, looked_up)
PLANS = {
    "pieces": "{words: embedding_rowwise, up: colwise, down: rowwise, wide: colwise}",
    "whole values": "{words: embedding_colwise, up: colwise_gather_output, down: rowwise_split_input, wide: colwise}",
    "no boundaries": "{words.weight: [tp, null], up.weight: [tp, null], down.weight: [null, tp], wide: colwise}",
}


def make(code):
    torch.manual_seed(1)
    return Model(code).double()


def changes(rank, path):
    manifest = m.load_manifest(path)
    mesh, x = mesh_of(manifest), torch.randn(2, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for code in CODES:
        whole, spread = make(code), bridge_torch.parallelize(make(code), manifest, mesh)
        found, wanted = spread(x), whole(x)
        assert (found - wanted).abs().max() < 1e-9, code
        for output in (found, wanted):
            output += 1  # by the loss, too
            output.pow(2).sum().backward()
        for name, parameter in whole.named_parameters():
            gradient = bridge_torch.full_tensor(spread, name, gradient=True)
            assert (gradient is None) == (parameter.grad is None), (code, name)
            assert gradient is None or (gradient - parameter.grad).abs().max() < 1e-9, (code, name)
    for model in (make(needed), bridge_torch.parallelize(make(needed), manifest, mesh)):
        with pytest.raises(RuntimeError, match="modified.*inplace"):
            model(x).sum().backward()


@pytest.mark.parametrize("name", PLANS)
def test_in_place_change_trains_as_one_process(tmp_path, ranks, name):  # noqa: F811
    plan = f"format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan: {PLANS[name]}\n"
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(make(added)), plan)
    ranks.run(2, changes, str(path))
