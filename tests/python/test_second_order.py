"""Second-order gradients of parallelized models, compared with one process: of parameters, and of the model input."""

import json
import math

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from bridge import mesh_of, ranks  # noqa: E402, F401
from test_plain_linear import PLANS, Net  # noqa: E402
from test_torch_training import CASES, batch, graph_of, loss_of, make  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from tpplan.torch import modules  # noqa: E402


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def of_parameters(model, loss):
    """The gradient of the squared gradient norm."""
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss, list(named.values()), create_graph=True)
    squares = sum(whole(g).pow(2).sum() for g in gradients)
    found = torch.autograd.grad(squares, list(named.values()), allow_unused=True)
    return {n: torch.zeros(p.shape).double() if g is None else whole(g) for (n, p), g in zip(named.items(), found)}


def of_input(model, x):
    """The gradients of a penalty on the gradient of the model input."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).pow(2).sum(), x, create_graph=True)
    model.zero_grad()
    gradient.pow(2).sum().backward()
    return {n: whole(p.grad) for n, p in model.named_parameters() if p.grad is not None} | {"x": x.grad}


def assert_alike(found, expected):
    assert found.keys() == expected.keys()
    far = {name: (found[name] - value).abs().max().item() for name, value in expected.items()}
    assert all(distance < 1e-9 * max(1, expected[name].abs().max()) for name, distance in far.items()), far


def trained_on_rank(rank, name, path):
    case, manifest = CASES[name], m.load_manifest(path)
    mesh = mesh_of(manifest)
    (tokens, targets), count = batch(case["length"]), batch(case["length"])[1].numel()
    with sdpa_kernel(SDPBackend.MATH):  # the other backends have no second-order gradient
        reference = make(case)
        expected = of_parameters(reference, loss_of(reference, tokens, targets, count))
        model = bridge_torch.parallelize(make(case), manifest, mesh, units=False)
        for axis, size in manifest.mesh:
            if axis in (*manifest.data_axes, manifest.fsdp_axis):
                tokens, targets = (t.chunk(size)[mesh.get_local_rank(axis)] for t in (tokens, targets))
        assert_alike(of_parameters(model, loss_of(model, tokens, targets, count)), expected)
        if manifest.fsdp_axis is not None:
            units = bridge_torch.parallelize(make(case), manifest, mesh, units=True)
            with pytest.raises(RuntimeError, match=r"parameter `.*gradients of gradients(.|\n)*units=False"):
                of_parameters(units, loss_of(units, tokens, targets, count))


@pytest.mark.parametrize("name", CASES)
def test_second_order_gradients_match_one_process(tmp_path, ranks, name):  # noqa: F811
    path = bridge.compile_manifest(tmp_path, graph_of(CASES[name]), CASES[name]["plan"])
    ranks.run(math.prod(CASES[name]["mesh"].values()), trained_on_rank, name, str(path))


def penalised_on_rank(rank, path):
    manifest, decide = m.load_manifest(path), modules.plain_linear
    x = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for plain in (decide, lambda *_: None):
        torch.manual_seed(0)
        reference = Net(True).double()
        torch.manual_seed(0)
        modules.plain_linear = plain
        model = bridge_torch.parallelize(Net(True).double(), manifest, mesh_of(manifest))
        modules.plain_linear = decide
        assert_alike(of_input(model, x), of_input(reference, x))


@pytest.mark.parametrize("name", [name for name in PLANS if "sequence" not in name])
def test_input_gradient_penalty_trains_as_one_process(tmp_path, ranks, name):  # noqa: F811
    rules = "".join(f"  {key}: {json.dumps(rule)}\n" for key, rule in PLANS[name][0].items())
    plan = f"format: tpplan.plan/1\ndialect: torch\nmesh: {{tp: 2}}\ntp_plan:\n{rules}"
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(Net(True).double()), plan)
    ranks.run(2, penalised_on_rank, str(path))
