"""Linear modules that tpplan.torch runs on plain local shards: which ones, and that values, gradients and calls match DTensor."""

import json

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402

from bridge import mesh_of, ranks  # noqa: E402, F401
from sent_calls import SentCalls  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402
from tpplan.torch import modules  # noqa: E402


class Net(nn.Module):
    """Two matmuls in sequence."""

    def __init__(self, bias):
        super().__init__()
        self.first, self.second = nn.Linear(6, 14, bias), nn.Linear(14, 6, bias)

    def forward(self, x):
        return self.second(self.first(x).tanh())


COLUMNS = {"style": "colwise"}
ROWS = {"style": "rowwise"}
# Rules, and the modules that run on plain tensors.
PLANS = {
    "a pair": ({"first": COLUMNS, "second": ROWS}, {"first", "second"}),
    "rows and pieces of the sequence": (
        {"first": COLUMNS | {"input_layouts": "Shard(1)"}, "second": ROWS | {"output_layouts": "Shard(1)"}},
        {"first", "second"},
    ),
    "columns that are gathered": (
        {"first": COLUMNS | {"output_layouts": "Replicate"}, "second": ROWS | {"input_layouts": "Replicate"}},
        {"second"},
    ),
    "columns that stay DTensors": ({"first": COLUMNS | {"use_local_output": False}, "second": ROWS}, {"second"}),
    "columns alone": ({"second": COLUMNS | {"output_layouts": "Replicate"}}, set()),
}


def batch(rank, count, name):
    x = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return x, (x.chunk(count, 1)[rank].clone() if "sequence" in name else x.clone()).requires_grad_()


def step(rank, count, name, bias, manifest):
    """The modules that computed with plain weights, and the results and calls of a step on this rank."""
    torch.manual_seed(0)
    model = bridge_torch.parallelize(Net(bias).double(), manifest, mesh_of(manifest))
    plain, original = set(), nn.functional.linear

    def watched(x, weight, bias=None):
        if not isinstance(x, DTensor) and not isinstance(weight, DTensor):
            plain.update(n for n, linear in model.named_children() if linear.__dict__.get("weight") is weight)
        return original(x, weight, bias)

    nn.functional.linear = watched
    calls = SentCalls(lambda phase, kind, given: [phase, kind, given.numel()])
    try:
        _, x = batch(rank, count, name)
        with calls:
            found = model(x)
            calls.phase = "backward"
            found.pow(2).sum().backward()
    finally:
        nn.functional.linear = original
    gradients = {path: bridge_torch.full_tensor(model, path, gradient=True) for path, _ in model.named_parameters()}
    return plain, found.detach(), x.grad, gradients, calls.found


def check_on_rank(rank, count, name, bias, path):
    manifest = m.load_manifest(path)
    torch.manual_seed(0)
    whole = Net(bias).double()
    x, _ = batch(rank, count, name)
    right = whole(x.requires_grad_())
    right.pow(2).sum().backward()
    mine = (lambda value: value.chunk(count, 1)[rank]) if "sequence" in name else lambda value: value
    plain, found, gradient, gradients, calls = step(rank, count, name, bias, manifest)
    assert plain & PLANS[name][0].keys() == PLANS[name][1]
    assert torch.allclose(found, mine(right), rtol=0, atol=1e-12)
    assert torch.allclose(gradient, mine(x.grad), rtol=0, atol=1e-12)
    for key, parameter in whole.named_parameters():
        assert torch.allclose(gradients[key], parameter.grad, rtol=0, atol=1e-12), key

    decide, modules.plain_linear = modules.plain_linear, lambda *_: None
    try:
        by_dtensor = step(rank, count, name, bias, manifest)
    finally:
        modules.plain_linear = decide
    assert not by_dtensor[0] & PLANS[name][0].keys()
    assert torch.equal(by_dtensor[1], found) and torch.equal(by_dtensor[2], gradient)
    assert all(torch.equal(value, gradients[key]) for key, value in by_dtensor[3].items())
    assert by_dtensor[4] == calls


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("name", PLANS)
def test_plain_linears_match_dtensor(tmp_path, ranks, name, bias, count):  # noqa: F811
    rules = "".join(f"  {key}: {json.dumps(rule)}\n" for key, rule in PLANS[name][0].items())
    plan = f"format: tpplan.plan/1\ndialect: torch\nmesh: {{tp: {count}}}\nuneven: torch\ntp_plan:\n{rules}"
    path = bridge.compile_manifest(tmp_path, torch_module.model_graph(Net(bias).double()), plan)
    ranks.run(count, check_on_rank, count, name, bias, str(path))


def given_whole(rank, path):
    manifest = m.load_manifest(path)
    model = bridge_torch.parallelize(Net(True), manifest, mesh_of(manifest))
    with pytest.raises(
        ValueError,
        match=r"module `second`: the rule declares .*Shard.* for a value, but this rank's shard is \[2, 14\]",
    ):
        model.second(torch.ones(2, 14))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model.first(torch.ones(2, 5))
    assert model(torch.ones(2, 6)).shape == (2, 6)


def test_replicated_input_in_place_of_a_shard_is_rejected(tmp_path, ranks):  # noqa: F811
    plan = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan: {first: colwise, second: rowwise}\n"
    ranks.run(2, given_whole, str(bridge.compile_manifest(tmp_path, torch_module.model_graph(Net(True)), plan)))


def beside_fsdp(rank, path):
    manifest, original = m.load_manifest(path), modules.prepare_input
    model = bridge_torch.parallelize(Net(True).double(), manifest, mesh_of(manifest))
    called = []
    modules.prepare_input = lambda *given: called.append(given[1]) or original(*given)
    try:
        model(torch.ones(2, 6).double())
    finally:
        modules.prepare_input = original
    assert not called


@pytest.mark.parametrize("policy", ["dim0", "largest_dim"])
def test_fsdp_linears_run_on_plain_shards(tmp_path, ranks, policy):  # noqa: F811
    plan = f"""format: tpplan.plan/1
mesh: {{fsdp: 2, tp: 2}}
uneven: torch
tp_plan: {{first: colwise, second: rowwise}}
data: {{axes: [fsdp]}}
fsdp: {{axis: fsdp, min_weight_size: 0, policy: {policy}}}
"""
    ranks.run(
        4, beside_fsdp, str(bridge.compile_manifest(tmp_path, torch_module.model_graph(Net(True).double()), plan))
    )
