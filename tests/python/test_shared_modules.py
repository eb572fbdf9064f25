"""One module under several paths: its rules apply once, and contradicting rules are rejected. Errors of torch name the module that raised
them."""

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402

from bridge import ranks  # noqa: E402, F401
from tpplan import compare_transformers  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402

PLAN = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan:\n"


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Heads(nn.Module):
    """Three names of one head, as in DETR's decoders, and one layer that appears twice."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8)] * 2)
        self.heads = nn.ModuleList([Head()] * 3)

    def forward(self, x):
        found = []
        for head in self.heads:
            x = self.layers[len(found) % 2](x)
            found.append(head(x))
        return torch.stack(found)


RULES = {
    "all paths": '  "heads.*.up": colwise\n  "heads.*.down": rowwise\n  "layers.*": {style: rowwise, input_layouts: Replicate}\n',
    "the first path": '  "heads.0.up": colwise\n  "heads.0.down": rowwise\nremat: [heads.0]\n',
    "another path": '  "heads.1.up": colwise\n  "heads.1.down": rowwise\nremat: [heads.2]\n',
}


def make():
    torch.manual_seed(0)
    return Heads().double()


def trains(rank, path):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    reference, model = make(), bridge_torch.parallelize(make(), m.load_manifest(path), mesh)
    x = torch.randn(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    outputs = [one(x) for one in (reference, model)]
    assert (outputs[0] - outputs[1]).abs().max() < 1e-9
    for output in outputs:
        output.pow(2).sum().backward()
    for name, parameter in reference.named_parameters():
        assert (bridge_torch.full_tensor(model, name, gradient=True) - parameter.grad).abs().max() < 1e-9, name


@pytest.mark.parametrize("name", RULES)
def test_module_with_several_paths_is_wrapped_once(tmp_path, ranks, name):  # noqa: F811
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(make()), PLAN + RULES[name])
    ranks.run(2, trains, str(path))


def test_different_rules_for_one_module_are_rejected(tmp_path):
    path = bridge.compile_manifest(
        tmp_path,
        torch_module.model_graph(make()),
        PLAN + '  "heads.0.down": rowwise\n  "heads.1.down": {style: rowwise, input_layouts: Replicate}\n',
    )
    with compare_transformers.fake_ranks(2):
        mesh, model = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), make()
        with pytest.raises(m.ManifestError, match="`heads.1.down`: is the same module as `heads.0.down`"):
            bridge_torch.parallelize(model, m.load_manifest(path), mesh)
        assert not hasattr(model, "_tpplan_state")


def test_torch_errors_name_the_module(tmp_path):
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(make()), PLAN + RULES["all paths"])
    with compare_transformers.fake_ranks(2):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        model = bridge_torch.parallelize(make(), m.load_manifest(path), mesh)
        with pytest.raises(RuntimeError) as error:
            model.heads[0].up(torch.zeros(3, 9).double())
        assert error.value.__notes__ == ["in module `heads.0.up` (Linear, colwise), run by tpplan.torch"]
