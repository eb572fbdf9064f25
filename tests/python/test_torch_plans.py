"""Plans of the torch dialect under torch's parallelize_module: the result of `tpplan check` matches real ranks, and the calls of a step,
forward and backward, match the manifest, which marks DTensor's implicit ones as hidden."""

import collections
import functools
import json
import math
import sys

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from bridge import ranks, run  # noqa: E402, F401
from sent_calls import SentCalls  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor import parallel  # noqa: E402

from tpplan.export import torch_module  # noqa: E402
from tpplan.graph.settings import Settings, header  # noqa: E402
from tpplan.graph.tables import tables, text  # noqa: E402
from tpplan.graph.trace import trace  # noqa: E402

BATCH, LENGTH, WIDTH = 2, 8, 24


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fused = nn.Linear(WIDTH, 2 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        gate, value = self.fused(x).chunk(2, dim=-1)
        x = x + self.out(torch.sigmoid(gate) * value)
        for block in self.blocks:
            x = block(x)
        return x


class Divided(nn.Module):
    """By a size that it reads from a value: the local size, if the value is a local shard."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.up(x)
        return self.down(y / y.shape[-1])


class Chain(nn.Module):
    """All values after `stem` can be DTensors."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.up = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(4 * WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        x = self.stem(x)
        for up, down in zip(self.up, self.down):
            x = x + down(nn.functional.gelu(up(x)))
        return x


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


class Bent(Divided):
    """Through an operation that DTensor supports, but not its derivative."""

    def forward(self, x):
        return self.down(nn.functional.hardswish(self.up(x)))


class Normed(Divided):
    """Norm over a sharded dim."""

    def forward(self, x):
        y = self.up(x)
        return self.down(y / (y.norm(dim=-1, keepdim=True) + 1e-3))


class NormedFlat(Divided):
    """The same, with the dim removed after the norm."""

    def forward(self, x):
        y = self.up(x)
        return self.down(y * y.norm(dim=-1).unsqueeze(-1))


class Largest(Divided):
    """Divided by the global maximum over a sharded dim."""

    def forward(self, x):
        y = self.up(x)
        return self.down(y / (y.abs().amax(-1, keepdim=True) + 1e-2))


class Centred(Divided):
    """Minus its mean over the sequence."""

    def forward(self, x):
        y = self.up(x)
        return self.down(y - y.mean(1, keepdim=True))


class Scaled(Divided):
    """Times a trained scalar, which no rule can name."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return self.down(self.scale.exp() * self.up(x))


class EverySecond(nn.Module):
    """Some elements of each local shard, and the same ones of the full tensor."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.up(x)
        return self.down(y[..., ::2] * y[..., 1::2])


class Deviating(nn.Module):
    """The gradient of its deviation is partial if the output of `out` is."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        y = self.stem(x)
        return self.out(y.std(-1, keepdim=True) * y)


class Spread(Divided):
    """By its variance over a sharded dim."""

    def forward(self, x):
        y = self.up(x)
        return self.down(y / (1 + y.var(-1, keepdim=True)))


class Strayed(Divided):
    """By its deviation, with the dim removed."""

    def forward(self, x):
        y = self.up(x)
        return self.down(y / (1 + y.std(-1)).unsqueeze(-1))


class Orders(Divided):
    """Norms of other orders than 2."""

    ORDERS = (1, 0.5, math.inf, -math.inf)

    def forward(self, x):
        y = self.up(x)
        total = y
        for p in self.ORDERS:
            total = total + y / (torch.linalg.vector_norm(y, p, dim=-1, keepdim=True) + 1)
        return self.down(total)


class Powers(Orders):
    """Its derivative fills a quotient in place."""

    ORDERS = (1.5, 3)


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(WIDTH, 32), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Routed(nn.Module):
    """Hand-written expert routing: nonzero finds the experts with tokens, where finds their tokens; then once more expert by expert."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 3), nn.ModuleList(Expert() for _ in range(3))

    def forward(self, x):
        tokens = x.view(-1, WIDTH)
        weights, chosen = self.router(tokens).softmax(-1).topk(2, -1)
        total = torch.zeros_like(tokens)
        mask = nn.functional.one_hot(chosen, num_classes=3).permute(2, 1, 0)
        for hit in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            slot, token = torch.where(mask[hit].squeeze(0))
            found = self.experts[hit](tokens[None, token].reshape(-1, WIDTH)) * weights[token, slot, None]
            total.index_add_(0, token, found)
        for number, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == number)
            total[token] = total[token] + expert(tokens[token]) * weights[token, slot].unsqueeze(-1)
        return total.view_as(x)


class Uneven(nn.Module):
    """50 elements, in shards of 13, 13, 13 and 11 on four ranks."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 50)
        self.down = nn.Linear(50, WIDTH)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class Running(Divided):
    """Sums over a sharded dim that has a negative index."""

    DIM = -1

    def forward(self, x):
        return self.down(self.up(x).cumsum(self.DIM))


class RunningFromFront(Running):
    DIM = 2


class RunningOverTime(Running):
    DIM = -2


class OnePart(Divided):
    """Only one of two parts is used."""

    def forward(self, x):
        kept, _ = self.up(x).chunk(2, dim=1)
        return self.down(kept)


def make(model):
    torch.manual_seed(3)
    return model().double()


def batch():
    torch.manual_seed(4)
    return torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64), torch.randn(
        BATCH, LENGTH, WIDTH, dtype=torch.float64
    )


@functools.cache
def model_file(kind):
    model, x = make(kind), batch()[0]
    recording = trace(model, (x,), {}, "cpu")
    settings = Settings(batch=BATCH, sequence=LENGTH)
    return torch_module.model_graph(model) | {"graph": json.loads(text(tables(recording, header(settings, "float64"))))}


LAYOUTS = {"Partial": Partial(), "Replicate": Replicate(), "Shard(1)": Shard(1), "Shard(-1)": Shard(-1)}
STYLES = {
    "colwise": parallel.ColwiseParallel,
    "rowwise": parallel.RowwiseParallel,
    "sequence_parallel": parallel.SequenceParallel,
    "prepare_module_input": parallel.PrepareModuleInput,
    "prepare_module_output": parallel.PrepareModuleOutput,
}
MLP = {"blocks.*.up": {"style": "colwise"}, "blocks.*.down": {"style": "rowwise"}}
KEPT = {"fused": {"style": "colwise", "use_local_output": False}, "out": {"style": "rowwise"}}
PIECES = {"style": "rowwise", "output_layouts": "Shard(1)", "use_local_output": False}
SEQUENCE = {
    "blocks.0": {"style": "prepare_module_input", "input_layouts": "Replicate", "desired_input_layouts": "Shard(1)"},
    "blocks.*.norm": {"style": "sequence_parallel"},
    "blocks.*.up": {"style": "colwise", "use_local_output": False},
    "blocks.*.down": PIECES,
}

LOCAL_PIECES = SEQUENCE["blocks.0"] | {"use_local_output": True}
GATHERS = {"style": "colwise", "input_layouts": "Shard(1)"}

DTENSORS = {
    "stem": {"style": "colwise", "output_layouts": "Replicate", "use_local_output": False},
    "up.*": {"style": "colwise", "use_local_output": False},
    "down.*": {"style": "rowwise", "use_local_output": False},
}
DIVIDED = {"up": {"style": "colwise"}, "down": {"style": "rowwise"}}

DIVIDED_KEPT = DIVIDED | {"up": {"style": "colwise", "use_local_output": False}}
DEVIATING = {
    "stem": {"style": "colwise", "output_layouts": "Replicate", "use_local_output": False},
    "out": {"style": "colwise", "output_layouts": "Replicate"},
}
VARIED = {"up": PIECES | {"input_layouts": "Replicate"}, "down": {"style": "colwise", "output_layouts": "Replicate"}}
EXPERTS = {
    "experts.*.up": {"style": "colwise"},
    "experts.*.gate": {"style": "colwise"},
    "experts.*.down": {"style": "rowwise"},
}
UNEVEN = {"up": DIVIDED_KEPT["up"], "down": {"style": "colwise", "output_layouts": "Replicate"}}

# Plan; class of the first error, or None; whether some calls are hidden; the model if it is not Model.
PLANS = {
    "only the MLPs": (MLP, None, False),
    "a fused projection that stays a DTensor": (MLP | KEPT, None, True),
    "a fused projection in pieces": (MLP | KEPT | {"fused": {"style": "colwise"}}, "output", None),
    "out without its partner": ({"out": {"style": "rowwise"}}, "forward", None),
    "up without its partner": ({"blocks.*.up": {"style": "colwise"}}, "forward", None),
    "pieces of the sequence, which DTensor gathers by itself": (SEQUENCE, None, True),
    "pieces of the sequence in plain tensors": (MLP | {"blocks.0": LOCAL_PIECES}, "output", None),
    "divided by the size of a piece": (DIVIDED, "output", None, Divided),
    "divided by the size of a DTensor": (DIVIDED_KEPT, None, False, Divided),
    "a derivative that DTensor has not": (DIVIDED_KEPT, "gradient", None, Bent),
    "a derivative that plain tensors have": (DIVIDED, None, False, Bent),
    "a norm over what is cut": (DIVIDED_KEPT, None, True, Normed),
    "a norm over what is cut, its dim gone": (DIVIDED_KEPT, None, True, NormedFlat),
    "a largest value of what is cut": (DIVIDED_KEPT, None, True, Largest),
    "a mean beside the dim that is cut": (DIVIDED_KEPT, None, False, Centred),
    "a variance of what is cut": (DIVIDED_KEPT, None, True, Spread),
    "a variance beside the dim that is cut": (VARIED, None, True, Spread),
    "deviations of what is cut, whose gradient is an open sum": (DIVIDED_KEPT, "gradient", None, Strayed),
    "deviations beside the dim that is cut": (VARIED, None, True, Strayed),
    "norms of the third order over what is cut, whose gradient is an open sum": (
        DIVIDED_KEPT,
        "gradient",
        None,
        Powers,
    ),
    "norms of the third order beside the dim that is cut": (VARIED, None, True, Powers),
    "norms of other orders over what is cut": (DIVIDED_KEPT, None, True, Orders),
    "norms of other orders beside the dim that is cut": (VARIED, None, True, Orders),
    "experts by hand": (EXPERTS, None, False, Routed),
    "experts by hand without their partners": (
        {k: r for k, r in EXPERTS.items() if k != "experts.*.down"},
        "forward",
        None,
        Routed,
    ),
    "experts by hand that stay DTensors inside": (
        {key: rule | {"use_local_output": key.endswith("down")} for key, rule in EXPERTS.items()},
        None,
        False,
        Routed,
    ),
    "experts by hand whose sums are closed behind them": (
        EXPERTS
        | {
            "experts.*.down": {"style": "rowwise", "output_layouts": "Partial"},
            "": {"style": "prepare_module_output", "output_layouts": "Partial", "desired_output_layouts": "Replicate"},
        },
        "gradient",
        None,
        Routed,
    ),
    "one plain number among DTensors": (DIVIDED_KEPT, None, False, Scaled),
    "elements of a dim that is cut": (DIVIDED_KEPT, None, True, EverySecond),
    "a deviation whose gradient is an open sum": (DEVIATING, "gradient", None, Deviating),
    "a deviation of plain tensors": (
        DEVIATING | {"stem": {"style": "colwise", "output_layouts": "Replicate"}},
        None,
        False,
        Deviating,
    ),
    "pieces that do not divide, and whose gradient is scattered": (UNEVEN, None, True, Uneven),
    "one part of a DTensor that was split": (DIVIDED_KEPT, "gradient", None, OnePart),
    "sums that run along a dim that is cut, which torch does not see by its number from the end": (
        DIVIDED_KEPT,
        "output",
        None,
        Running,
    ),
    "sums that run along a dim that is cut": (DIVIDED_KEPT, None, True, RunningFromFront),
    "sums that run along another dim": (DIVIDED_KEPT, None, False, RunningOverTime),
    "MLPs of DTensors": (DTENSORS, None, True, Chain),
    "MLPs of DTensors whose sums stay open": (
        DTENSORS | {"down.*": DTENSORS["down.*"] | {"output_layouts": "Partial"}},
        None,
        True,
        Chain,
    ),
    "heads of DTensors that a split has gathered": (
        {"qkv": {"style": "colwise", "use_local_output": False}, "out": {"style": "rowwise"}},
        None,
        True,
        Attention,
    ),
    "a norm without its rule among pieces": (
        MLP | {"blocks.0": LOCAL_PIECES, "blocks.*.up": GATHERS, "blocks.*.down": PIECES | {"use_local_output": True}},
        "output",
        None,
    ),
}


def plan_text(rules, ranks_):
    lines = [f"  {json.dumps(key)}: {json.dumps(rule)}\n" for key, rule in rules.items()]
    return f"format: tpplan.plan/1\ndialect: torch\nmesh: {{tp: {ranks_}}}\nuneven: torch\ntp_plan:\n" + "".join(lines)


def style_of(rule):
    options = {key: LAYOUTS.get(value, value) for key, value in rule.items() if key != "style"}
    return STYLES[rule["style"]](**options)


BY_ITSELF = ("distributed/tensor/_dispatch.py", "distributed/tensor/parallel/loss.py")


def is_hidden():
    """True if torch is about to run an operation on DTensors, outside of an explicit redistribution."""
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.endswith(BY_ITSELF):
        frame = frame.f_back
    return frame is not None


def calls_of_a_step():
    """Kind, size and whether DTensor makes it implicitly, of each collective."""
    return SentCalls(lambda phase, kind, given: [phase, kind, given.numel(), is_hidden()])


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def outcome(kind, rules, count, calls):
    """The class of the first error of a step; None if the step matches one process."""
    x, weights = batch()
    expected = make(kind)
    right = expected(x)
    weights = weights[:, : right.shape[1]]
    (right * weights).sum().backward()
    model = make(kind)
    plan = {key: style_of(rule) for key, rule in rules.items()}
    parallel.parallelize_module(model, init_device_mesh("cpu", (count,), mesh_dim_names=("tp",)), plan)
    with calls:
        try:
            found = model(x)
        except Exception:
            return "forward"
    if found.shape != right.shape or (whole(found) - right).abs().max() > 1e-9:
        return "output"
    calls.phase = "backward"
    if isinstance(found, DTensor):
        placements = [Replicate() if placement.is_partial() else placement for placement in found.placements]
        weights = distribute_tensor(weights, found.device_mesh, placements)
    with calls:
        try:
            found.backward(weights)
        except Exception:
            return "gradient"
    for (_, a), (_, b) in zip(model.named_parameters(), expected.named_parameters()):
        if (whole(a.grad) - b.grad).abs().max() > 1e-9 * max(1, b.grad.abs().max()):
            return "gradient"
    return None


def check_on_rank(rank, kind, rules, count, expected, path):
    calls = calls_of_a_step()
    assert outcome(kind, rules, count, calls) == expected
    if rank == 0:
        with open(path, "w") as file:
            json.dump(calls.found, file)


def calls_as_forecast(model, plan, path):
    """The calls of the ranks, after a comparison with those in the manifest."""
    listed = json.loads(run("compile", model, plan).stdout)["collectives"]
    forecast = [(c["phase"], c["kind"], math.prod(c["shape"]), c.get("hidden", False)) for c in listed]
    called = [tuple(call) for call in json.loads(path.read_text())]
    assert collections.Counter(forecast) == collections.Counter(called)
    return called


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", PLANS)
def test_check_result_and_calls_match_the_ranks(tmp_path, ranks, name, count):  # noqa: F811
    rules, fails, hides, kind = (*PLANS[name], Model)[:4]
    model, plan = bridge.write(tmp_path, json.dumps(model_file(kind)), plan_text(rules, count))
    ranks.run(count, check_on_rank, kind, rules, count, fails, str(tmp_path / "calls.json"))
    result = run("check", model, plan, "--format", "json")
    errors = [d for d in json.loads(result.stdout)["diagnostics"] if d["severity"] == "error"]
    assert {d["fails"] for d in errors} == ({fails} if fails else set()), result.stdout
    if fails:
        return
    called = calls_as_forecast(model, plan, tmp_path / "calls.json")
    assert any(call[3] for call in called) == hides
