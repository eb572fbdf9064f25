"""More kinds of models under torch's parallelize_module: the `tpplan check` result of a plan matches the ranks, and the calls of a step
match the manifest."""

import functools
import json

import bridge
import pytest

bridge.needs("torch")

import test_torch_plans as plans  # noqa: E402
import torch  # noqa: E402
from bridge import ranks, run  # noqa: E402, F401
from test_torch_plans import LENGTH, WIDTH  # noqa: E402
from torch import nn  # noqa: E402

HEADS = 6


class TimeMix(nn.Module):
    """As RWKV: the state is a running sum, gated by receptance."""

    def __init__(self):
        super().__init__()
        self.r, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        mixed = x + nn.functional.pad(x, (0, 0, 1, -1))
        k = self.k(mixed).sigmoid()
        past = (k * self.v(mixed)).cumsum(1) / (k.cumsum(1) + 1e-3)
        x = x + self.o(self.r(mixed).sigmoid() * past)
        return x + self.down(self.up(x).relu().square())


class Adapted(nn.Module):
    """An MLP with low-rank adapters."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)
        self.up_a, self.up_b = nn.Linear(WIDTH, 6, bias=False), nn.Linear(6, 48, bias=False)
        self.down_a, self.down_b = nn.Linear(48, 6, bias=False), nn.Linear(6, WIDTH, bias=False)

    def forward(self, x):
        h = nn.functional.gelu(self.up(x) + 2 * self.up_b(self.up_a(x)))
        return x + self.down(h) + 2 * self.down_b(self.down_a(h))


class Messages(nn.Module):
    """Messages along the edges of a graph, summed at their targets."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)
        self.register_buffer("source", torch.arange(30) % LENGTH)
        self.register_buffer("target", torch.arange(30) * 7 % LENGTH)

    def forward(self, x):
        sent = self.message(x[:, self.source]).relu()
        return x + self.update(sent.new_zeros(len(x), LENGTH, sent.shape[-1]).index_add(1, self.target, sent))


class Tied(nn.Module):
    """A decoder that is its encoder's transpose."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(WIDTH, 48, bias=False)

    def forward(self, x):
        return nn.functional.linear(self.encode(x).relu(), self.encode.weight.t())


class Cached(nn.Module):
    """Attention to a memory, with the first keys and values in a cache of all heads."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.register_buffer("cache", torch.linspace(-1, 1, 2 * HEADS * 3 * 4).double().cos().view(2, HEADS, 3, 4))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for p in (self.q, self.k, self.v))
        k, v = (torch.cat([self.cache, t], 2) for t in (k, v))
        return x + self.o(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Scaled(nn.Module):
    """A gain for each channel, inside the MLP."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)
        self.gain = nn.Parameter(torch.rand(48))

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)) * self.gain)


class Matched(nn.Module):
    """Scaled by its dot product with a vector, the mean of all tokens."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x):
        y = self.up(x)
        return self.down(y * (y @ y.mean((0, 1))).unsqueeze(-1))


COLWISE, ROWWISE = {"style": "colwise"}, {"style": "rowwise"}
KEPT = COLWISE | {"use_local_output": False}
WHOLE = COLWISE | {"output_layouts": "Replicate"}


def rules(colwise="", rowwise="", **more):
    return dict.fromkeys(colwise.split(), COLWISE) | dict.fromkeys(rowwise.split(), ROWWISE) | more


# Model, plan, class of the first error.
CASES = {
    "running sums of a rank's channels": (TimeMix, rules("r k v up", "o down"), None),
    "running sums of DTensors": (TimeMix, rules("", "o down", **dict.fromkeys(("r", "k", "v", "up"), KEPT)), None),
    "running sums of pieces, gated by what is whole": (TimeMix, rules("k v up", "o down"), "forward"),
    "adapters cut with what they adapt": (Adapted, rules("up up_b", "down down_a"), None),
    "adapters that are cut on their inner dim alone": (Adapted, rules("up up_a up_b", "down down_a"), "forward"),
    "adapters of which half is cut": (Adapted, rules("up up_b", "down"), "forward"),
    "messages in pieces of their channels": (Messages, rules("message", "update"), None),
    "messages in pieces, updated whole": (Messages, rules("message"), "forward"),
    "an encoder cut, and its transpose with it": (Tied, rules("encode"), "forward"),
    "a cache of all heads beside a rank's": (Cached, rules("q k v", "o"), "forward"),
    "a cache of all heads beside all heads": (Cached, rules(q=WHOLE, k=WHOLE, v=WHOLE), None),
    "a vector that is cut, as its matrix is": (Matched, rules("", "down", up=KEPT), None),
    "a gain of all channels on a rank's": (Scaled, rules("up", "down"), "forward"),
}  # fmt: skip


@functools.cache
def model_file(kind):
    return json.dumps(plans.model_file(kind))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_check_result_and_calls_match_the_ranks(tmp_path, ranks, name, count):  # noqa: F811
    kind, plan_rules, fails = CASES[name]
    model, plan = bridge.write(tmp_path, model_file(kind), plans.plan_text(plan_rules, count))
    ranks.run(count, plans.check_on_rank, kind, plan_rules, count, fails, str(tmp_path / "calls.json"))
    errors = [
        d
        for d in json.loads(run("check", model, plan, "--format", "json").stdout)["diagnostics"]
        if d["severity"] == "error"
    ]
    assert {d["fails"] for d in errors} == ({fails} if fails else set()), errors
    if fails:
        return
    plans.calls_as_forecast(model, plan, tmp_path / "calls.json")
