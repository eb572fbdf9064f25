"""Modules whose code divides its head counts (`local_attributes` of a plan): `tpplan check` accepts the plan exactly if two gloo ranks
train as one process does, under parallelize_module with the division in user code, and under tpplan.torch, which divides."""

import json

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from bridge import PROGRAM, ranks, run  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import parallel  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import tpplan  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from tpplan.graph.settings import Settings, header  # noqa: E402
from tpplan.graph.tables import tables, text  # noqa: E402
from tpplan.graph.trace import trace  # noqa: E402

SIZE, TOKENS = 32, 6


class Grouped(nn.Module):
    """Heads by global counts, repeated by expand; the result has the width of all heads."""

    def __init__(self, n_heads=4, n_kv=2):
        super().__init__()
        self.n_heads, self.n_kv, self.head_dim = n_heads, n_kv, SIZE // n_heads
        self.wq, self.wo = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE, bias=False)
        self.wk, self.wv = nn.Linear(SIZE, n_kv * self.head_dim), nn.Linear(SIZE, n_kv * self.head_dim)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
        k, v = (w(x).view(b, t, self.n_kv, self.head_dim).transpose(1, 2) for w in (self.wk, self.wv))
        q, k = (torch.cat([-y[..., y.shape[-1] // 2 :], y[..., : y.shape[-1] // 2]], -1) for y in (q, k))
        groups = self.n_heads // self.n_kv
        k, v = (
            y[:, :, None].expand(b, self.n_kv, groups, t, self.head_dim).reshape(b, self.n_heads, t, self.head_dim)
            for y in (k, v)
        )
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(a.transpose(1, 2).reshape(b, t, self.n_heads * self.head_dim))


class Fused(nn.Module):
    """As many heads as a head has elements, in one projection that is split by sizes."""

    def __init__(self):
        super().__init__()
        self.n_heads, self.head_dim = 4, 4
        self.qkv_proj, self.out = nn.Linear(SIZE, 48), nn.Linear(16, SIZE, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        parts = self.qkv_proj(x).split([self.n_heads * self.head_dim] * 3, -1)
        q, k, v = (y.view(b, t, self.n_heads, self.head_dim).transpose(1, 2) for y in parts)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(a.transpose(1, 2).reshape(b, t, -1))


class HeadSize(nn.Module):
    """The size of a head from the width of a projection and the number of heads."""

    def __init__(self):
        super().__init__()
        self.n_heads = 4
        self.wq, self.wv = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        self.wo = nn.Linear(SIZE, SIZE, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, v = self.wq(x), self.wv(x)
        q, v = (y.view(b, t, self.n_heads, y.shape[-1] // self.n_heads).transpose(1, 2) for y in (q, v))
        a = F.scaled_dot_product_attention(q, q, v, is_causal=True)
        return self.wo(a.transpose(1, 2).flatten(2))


class OneHead(nn.Module):
    """All heads of queries have one head of keys and values, repeated by expand. Its gradient ends at the layer."""

    def __init__(self):
        super().__init__()
        self.n_heads = 4
        self.wq, self.kv = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 8)
        self.wo = nn.Linear(SIZE, SIZE, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k = self.wq(x).view(b, t, self.n_heads, 8).transpose(1, 2), self.kv(x.detach())
        k = k[:, None].expand(b, self.n_heads, t, 8)
        return self.wo(F.scaled_dot_product_attention(q, k, k, is_causal=True).transpose(1, 2).reshape(b, t, -1))


class Width(HeadSize):
    """The size of a head from the width of the model, which no rank divides."""

    def forward(self, x):
        b, t, c = x.shape
        q, v = (y.view(b, t, self.n_heads, c // self.n_heads).transpose(1, 2) for y in (self.wq(x), self.wv(x)))
        a = F.scaled_dot_product_attention(q, q, v, is_causal=True)
        return self.wo(a.transpose(1, 2).flatten(2))


class Stack(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.layers = nn.ModuleList(attention() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


SHARDED = {"layers.*.w[qkv]": "colwise", "layers.*.wo": "rowwise"}
FUSED = {"layers.*.qkv_proj": "colwise", "layers.*.out": "rowwise"}
# name: model, rules, divided attributes, does a step compute what one process computes.
CASES = {
    "all counts": (Grouped, SHARDED, ["n_heads", "n_kv"], True),
    "no count": (Grouped, SHARDED, [], False),
    "kv heads are not divided": (Grouped, SHARDED, ["n_heads"], False),
    "kv projections are whole": (
        Grouped,
        {"layers.*.wq": "colwise", "layers.*.wo": "rowwise"},
        ["n_heads", "n_kv"],
        False,
    ),
    "size of a head": (HeadSize, SHARDED, ["n_heads"], True),
    "size of a head, no count": (HeadSize, SHARDED, [], False),
    "one head of keys": (
        OneHead,
        {"layers.*.wq": "colwise", "layers.*.wo": "rowwise", "layers.*.kv": "replicated_with_grad_allreduce"},
        ["n_heads"],
        True,
    ),
    "size of a head from the width": (Width, SHARDED, ["n_heads"], False),
    "fused": (Fused, FUSED, ["n_heads"], True),
    "fused, no count": (Fused, FUSED, [], False),
}


def make(model):
    torch.manual_seed(3)
    return Stack(model).double()


def batch():
    return torch.randn(2, TOKENS, SIZE, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def model_file(folder, model):
    graph = tables(trace(model, (batch(),), {}, "cpu"), header(Settings(batch=2, sequence=TOKENS), "float64"))
    path = folder / "model.json"
    path.write_text(json.dumps(torch_module.model_graph(model) | {"graph": json.loads(text(graph))}))
    return path


def plan_of(dialect, rules, names):
    plan = {"format": "tpplan.plan/1", "dialect": dialect, "mesh": {"tp": 2}, "tp_plan": rules}
    return plan | ({"local_attributes": {"layers.*": names}} if names else {})


def gradients(model):
    model(batch()).square().sum().backward()
    return [p.grad for _, p in model.named_parameters()]


def divided_by_user(rules, names, model):
    styles = {"colwise": parallel.ColwiseParallel, "rowwise": parallel.RowwiseParallel}
    for layer in model.layers:
        for name in names:
            setattr(layer, name, getattr(layer, name) // 2)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    parallel.parallelize_module(model, mesh, {key: styles[style]() for key, style in rules.items()})


def divided_by_tpplan(rules, names, model):
    bridge.os.environ["TPPLAN"] = PROGRAM
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    bridge_torch.parallelize(model, plan_of("glob", rules, names), mesh, inputs={"x": batch()})
    assert all(getattr(layer, name) == getattr(type(layer)(), name) // 2 for layer in model.layers for name in names)


def trains(rank, divide, name):
    kind, rules, names, _ = CASES[name]
    whole, sharded = make(kind), make(kind)
    divide(rules, names, sharded)
    wanted, found = gradients(whole), gradients(sharded)
    for one, other in zip(wanted, found):
        other = other.full_tensor() if hasattr(other, "full_tensor") else other
        assert (one - other).abs().max() < 1e-9
    assert (whole(batch()) - sharded(batch())).abs().max() < 1e-9


def fails(rank, divide, name):
    with pytest.raises((RuntimeError, tpplan.PlanError, AssertionError)):
        trains(rank, divide, name)


DIALECTS = {"torch": divided_by_user, "glob": divided_by_tpplan}
# parallelize_module shards the rows of a fused projection as one range, and sums no gradients of replicated layers.
GLOB_ONLY = ("fused", "fused, no count", "one head of keys")


@pytest.mark.parametrize(
    "dialect, name", [(d, n) for d in DIALECTS for n in CASES if d == "glob" or n not in GLOB_ONLY]
)
def test_check_agrees_with_two_ranks(tmp_path, ranks, dialect, name):  # noqa: F811
    kind, rules, names, is_right = CASES[name]
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps(plan_of(dialect, rules, names)))
    result = run("check", model_file(tmp_path, make(kind)), plan)
    assert result.returncode == (0 if is_right else 1), result.stderr.decode()
    ranks.run(2, trains if is_right else fails, DIALECTS[dialect], name)


def test_forecast_of_layers_is_the_one_of_sizes(tmp_path):
    """The calls of a step are those of the same model with -1 in its views."""
    kind, rules, names, _ = CASES["all counts"]
    calls = []
    for count, listed in ((None, names), (-1, [])):
        model, plan = make(kind), tmp_path / "plan.yaml"
        for layer in model.layers if count else ():
            layer.forward = by_sizes.__get__(layer)
        plan.write_text(json.dumps(plan_of("torch", rules, listed)))
        result = run("compile", model_file(tmp_path, model), plan, "-o", tmp_path / "manifest.json")
        assert result.returncode == 0, result.stderr.decode()
        calls.append(json.loads((tmp_path / "manifest.json").read_text())["collectives"])
    assert calls[0] == calls[1] and calls[0]


def by_sizes(self, x):
    q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return self.wo(a.transpose(1, 2).flatten(2))


def refuses(rank, path):
    model = make(Grouped)
    model.layers[1].n_kv = 1
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    with pytest.raises(tpplan.ManifestError, match="`n_kv` is 1, but the manifest divides 2 by 2 ranks"):
        bridge_torch.parallelize(model, path, mesh)
    assert model.layers[0].n_kv == 2 and not hasattr(model, "_tpplan_state")


def test_divided_model_is_rejected_before_a_change(tmp_path, ranks):  # noqa: F811
    kind, rules, names, _ = CASES["all counts"]
    plan, manifest = tmp_path / "plan.yaml", tmp_path / "manifest.json"
    plan.write_text(json.dumps(plan_of("glob", rules, names)))
    assert run("compile", model_file(tmp_path, make(kind)), plan, "-o", manifest).returncode == 0
    ranks.run(2, refuses, str(manifest))
