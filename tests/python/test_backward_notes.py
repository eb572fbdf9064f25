"""Exceptions in the backward pass of a parallelized model name the module or parameter of the gradient."""

import contextlib

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from tpplan import compare_transformers  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from tpplan.torch import communication, units  # noqa: E402

HEAD = "format: tpplan.plan/1\n"
PLAN = {
    "tp": """mesh: {tp: 2}
tp_plan: {"blocks.*.up": colwise, "blocks.*.down": rowwise, "blocks.*.norm": replicate}
""",
    "gathered": """dialect: torch
mesh: {tp: 2}
tp_plan:
  blocks.*.up: {style: colwise, output_layouts: Replicate}
  blocks.*.down: {style: rowwise, input_layouts: Replicate}
""",
    "units": """mesh: {data: 2}
tp_plan: {}
data: {axes: [data]}
fsdp: {axis: data, min_weight_size: 0, units: ["blocks.*"]}
""",
    "data": """mesh: {data: 2}
tp_plan: {"**": replicate}
data: {axes: [data]}
""",
}


class Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        raise ArithmeticError("no gradient")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)
        self.refuses = self.changes = False

    def forward(self, x):
        y = self.up(self.norm(x))
        y = Refuse.apply(y) if self.refuses else y.sigmoid()
        if self.changes:
            y.mul_(2)
        return x + self.down(y)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def spread(tmp_path):
    """Parallelizes a model with one of the plans, as the first of two ranks; the other one does not exist."""
    with compare_transformers.fake_ranks(2):

        def make(plan):
            path = bridge.compile_manifest(tmp_path, torch_module.model_graph(Stack()), HEAD + PLAN[plan])
            manifest = m.load_manifest(path)
            mesh = init_device_mesh("cpu", (2,), mesh_dim_names=tuple(axis for axis, _ in manifest.mesh))
            return bridge_torch.parallelize(Stack(), manifest, mesh)

        yield make


@contextlib.contextmanager
def failing(monkeypatch, owner, name, count):
    """Makes the `count`th call of a function fail."""
    calls, original = [], getattr(owner, name)

    def call(*args, **kwargs):
        calls.append(name)
        if len(calls) == count:
            raise ConnectionError("a peer is gone")
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, call)
        yield


def notes_of(loss, kind):
    with pytest.raises(kind) as error:
        loss.backward()
    return getattr(error.value, "__notes__", [])


def forward(model):
    return model(torch.ones(3, 8, requires_grad=True)).pow(2).sum()


def note(place):
    return [f"in the backward pass of {place}, run by tpplan.torch"]


@pytest.mark.parametrize("count, path", [(1, "blocks.2.down"), (2, "blocks.1.down")])
def test_torch_redistribute_error_names_the_module(spread, monkeypatch, count, path):
    from torch.distributed import _functional_collectives

    names = ("all_gather_single", "all_gather_tensor")  # of torch 2.13, and of older versions
    name = next(name for name in names if hasattr(_functional_collectives, name))
    loss = forward(spread("gathered"))
    with failing(monkeypatch, _functional_collectives, name, count):
        assert notes_of(loss, ConnectionError) == note(f"module `{path}`")


@pytest.mark.parametrize("count, path", [(1, "blocks.2.up"), (2, "blocks.1.up")])
def test_reduction_error_names_the_module_of_the_input(spread, monkeypatch, count, path):
    loss = forward(spread("tp"))
    with failing(monkeypatch, communication, "all_reduce", count):
        assert notes_of(loss, ConnectionError) == note(f"module `{path}`")


def test_gradient_reduction_error_names_the_parameter(spread, monkeypatch):
    loss = forward(spread("data"))
    with failing(monkeypatch, communication, "all_reduce", 3):
        (text,) = notes_of(loss, ConnectionError)
    assert text.startswith("in the backward pass of parameter `blocks.2."), text


def test_unit_error_names_its_parameters(spread, monkeypatch):
    loss = forward(spread("units"))
    with failing(monkeypatch, units, "_begin", 1):
        assert notes_of(loss, ConnectionError) == note("parameter `blocks.2.norm.weight` and 5 more of its FSDP unit")
    scatter = (
        "reduce_scatter_single" if hasattr(torch.distributed, "reduce_scatter_single") else "reduce_scatter_tensor"
    )
    loss = forward(spread("units"))
    with failing(monkeypatch, torch.distributed, scatter, 2):
        assert notes_of(loss, ConnectionError) == note("parameter `blocks.1.norm.weight` and 5 more of its FSDP unit")


@pytest.mark.parametrize("how, kind", [("refuses", ArithmeticError), ("changes", RuntimeError)])
def test_other_errors_name_the_last_passed_module(spread, how, kind):
    model = spread("tp")
    setattr(model.blocks[1], how, True)
    (text,) = notes_of(forward(model), kind)
    assert text == (
        "in a backward pass, after that of module `blocks.1.down`, the last one that tpplan.torch ran; "
        "torch.autograd.set_detect_anomaly(True) shows the call of the forward pass"
    )
    whole = Stack()
    setattr(whole.blocks[1], how, True)
    assert notes_of(forward(whole), kind) == [], "a model that nobody spread, in the same process"


def test_autograd_grad_errors_have_the_note(spread):
    model = spread("tp")
    model.blocks[0].refuses = True
    with pytest.raises(ArithmeticError) as error:
        torch.autograd.grad(forward(model), list(model.parameters()))
    assert "after that of module `blocks.0.down`" in error.value.__notes__[0]
