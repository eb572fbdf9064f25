"""Communication dtypes of boundaries (`forward_dtype`, `backward_dtype`) on real ranks: outputs and gradients match torch's
DTensor.redistribute with these dtypes bit for bit, eager and compiled, and ranks send the bytes that the manifest counts."""

import collections
import contextlib
import json
import math

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from bridge import mesh_of, ranks, run, write  # noqa: E402, F401
from saved_bytes import Saved  # noqa: E402
from sent_calls import FUNCTIONAL, SentCalls  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import live_model  # noqa: E402

WIDTH, BATCH, LENGTH = 16, 2, 8
BF16, FP32, FP64 = torch.bfloat16, torch.float32, torch.float64


class Block(nn.Module):
    """Its output is reduced in the dtype of its input."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = self.stem(x)
        return self.down(F.gelu(self.up(x))).to(x.dtype) * 2


class Around(nn.Module):
    """A block with sequence-sharded input and output."""

    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x)


class Columns(nn.Module):
    """The gathered output of a colwise projection."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x):
        return self.up(self.stem(x)) * 2


def sent(forward=None, backward=None):
    return {key: d for key, d in (("forward_dtype", forward), ("backward_dtype", backward)) if d is not None}


# Model, its dtype, rules, and by module the layouts and dtypes of its input and output.
KEPT, SEQUENCE, WHOLE, SUM, LAST = {}, Shard(1), Replicate(), Partial(), Shard(-1)
CASES = {
    "a sum in a wider type": (
        Block,
        BF16,
        {"up": {"style": "colwise"}, "down": {"style": "rowwise", "forward_dtype": "float32"}},
        {"up": ((WHOLE, WHOLE, KEPT), (LAST, LAST, KEPT)), "down": ((LAST, LAST, KEPT), (SUM, WHOLE, sent(FP32)))},
    ),
    "a sum in a narrower type, and gradients": (
        Block,
        FP32,
        {
            "up": {"style": "colwise", "backward_dtype": "bfloat16"},
            "down": {"style": "rowwise", "forward_dtype": "bfloat16"},
        },
        {
            "up": ((WHOLE, WHOLE, sent(backward=BF16)), (LAST, LAST, KEPT)),
            "down": ((LAST, LAST, KEPT), (SUM, WHOLE, sent(BF16))),
        },
    ),
    "a sequence gathered as it is, its gradients scattered in a wider type": (
        Block,
        BF16,
        {
            "up": {"style": "colwise", "input_layouts": "Shard(1)", "backward_dtype": "float32"},
            "down": {"style": "rowwise", "output_layouts": "Shard(1)", "forward_dtype": "float32"},
        },
        {
            "up": ((SEQUENCE, WHOLE, sent(backward=FP32)), (LAST, LAST, KEPT)),
            "down": ((LAST, LAST, KEPT), (SUM, SEQUENCE, sent(FP32))),
        },
    ),
    "a sequence scattered and gathered back in a narrower type": (
        Block,
        FP32,
        {
            "up": {"style": "colwise", "input_layouts": "Shard(1)", "backward_dtype": "bfloat16"},
            "down": {
                "style": "rowwise",
                "output_layouts": "Shard(1)",
                "forward_dtype": "bfloat16",
                "backward_dtype": "bfloat16",
            },
        },
        {
            "up": ((SEQUENCE, WHOLE, sent(backward=BF16)), (LAST, LAST, KEPT)),
            "down": ((LAST, LAST, KEPT), (SUM, SEQUENCE, sent(BF16, BF16))),
        },
    ),
    "columns gathered in a narrower type": (
        Columns,
        FP32,
        {"up": {"style": "colwise_gather_output", "forward_dtype": "bfloat16", "backward_dtype": "float16"}},
        {"up": ((WHOLE, WHOLE, sent(backward=torch.float16)), (LAST, WHOLE, sent(BF16)))},
    ),
    "no type of its own": (
        Block,
        FP64,
        {"up": {"style": "colwise"}, "down": {"style": "rowwise"}},
        {"up": ((WHOLE, WHOLE, KEPT), (LAST, LAST, KEPT)), "down": ((LAST, LAST, KEPT), (SUM, WHOLE, KEPT))},
    ),
}
KINDS = FUNCTIONAL | {"c10d::allreduce_": "all_reduce"}


PIECES = {
    "style": "prepare_module_input_output",
    "input_layouts": "Replicate",
    "desired_input_layouts": "Shard(1)",
    "use_local_input": True,
    "output_layouts": "Shard(1)",
    "desired_output_layouts": "Replicate",
}


def plan_text(rules, count):
    rules = {"stem": "replicate", **rules}
    if "input_layouts" in rules["up"]:
        rules = {f"block.{key}": rule for key, rule in rules.items()}
        rules |= {"block.stem": "replicated_with_grad_allreduce", "block": PIECES}
    lines = [f"  {key}: {json.dumps(rule)}\n" for key, rule in rules.items()]
    return f"format: tpplan.plan/1\nmesh: {{tp: {count}}}\ntp_plan:\n" + "".join(lines)


def make(name):
    torch.manual_seed(3)
    kind, dtype = CASES[name][:2]
    return (Around if is_cut(name) else kind)().to(dtype)


def batch(name):
    """An input, and the gradient of the output."""
    torch.manual_seed(4)
    kind, dtype = CASES[name][:2]
    wide = 4 * WIDTH if kind is Columns else WIDTH
    return torch.randn(BATCH, LENGTH, WIDTH, dtype=dtype), torch.randn(BATCH, LENGTH, wide)


def is_cut(name):
    return SEQUENCE in CASES[name][3]["up"][0]


def sent_of(phase, kind, given):
    """(phase, kind, elements, dtype) of the calls of a rank; exchanges of sizes are omitted."""
    dtype = str(given.dtype).removeprefix("torch.")
    return None if dtype == "int64" else (phase, kind, given.numel(), dtype)


def by_hand(name, mesh):
    """The model's step with DTensor only: parameters with gradients, and the step function."""
    model, boundaries = make(name), CASES[name][3]
    model = model.block if is_cut(name) else model
    stem = list(model.stem.parameters())
    placements = {"up": (Shard(0), Shard(0)), "down": (Shard(1), Replicate())}
    held = {
        path: [nn.Parameter(distribute_tensor(p.data, mesh, [where])) for p, where in zip(module.parameters(), places)]
        for path, places in placements.items()
        if (module := getattr(model, path, None)) is not None
    }

    def project(path, x):
        (source, target, types), (made, left, types_out) = boundaries[path]
        x = DTensor.from_local(x, mesh, [source], run_check=False)
        x = x.redistribute(placements=[target], **types)
        y = F.linear(x, *held[path])
        assert (y.placements[0] == made) or (made == LAST and y.placements[0] == Shard(y.ndim - 1))
        target = Shard(y.ndim - 1) if left == LAST else left
        return y.redistribute(placements=[target], **types_out).to_local()

    def step(x):
        if is_cut(name):
            x = DTensor.from_local(x, mesh, [WHOLE], run_check=False).redistribute(placements=[SEQUENCE]).to_local()
        x = F.linear(x, *stem)
        if "down" not in held:
            return project("up", x) * 2
        y = project("down", F.gelu(project("up", x))).to(x.dtype) * 2
        if not is_cut(name):
            return y
        return DTensor.from_local(y, mesh, [SEQUENCE], run_check=False).redistribute(placements=[WHOLE]).to_local()

    named = {f"{path}.{n}": p for path, ps in held.items() for n, p in zip(("weight", "bias"), ps)}
    named |= {"stem.weight": stem[0], "stem.bias": stem[1]}
    return {f"block.{path}": p for path, p in named.items()} if is_cut(name) else named, step


def run_step(name, step, parameters, watch):
    """The output and the gradients of the parameters, as local shards. Those of the stem are computed from the gradient of its output."""
    x, weights = batch(name)
    with watch or contextlib.nullcontext():
        y = step(x)
    if watch is not None:
        watch.phase = "backward"
    with watch or contextlib.nullcontext():
        y.backward(weights.to(y.dtype))
    grads = [parameters[path].grad for path in sorted(parameters)]
    return [y.detach(), *(g.to_local() if isinstance(g, DTensor) else g for g in grads)]


def check_on_rank(rank, name, path, compiled, called):
    manifest = m.load_manifest(path)
    mesh = mesh_of(manifest)
    theirs = SentCalls(sent_of, KINDS)
    parameters, step = by_hand(name, mesh)
    expected = run_step(name, step, parameters, theirs)
    for path in ("block.stem.weight", "block.stem.bias"):  # sequence shards: each rank has a partial gradient
        if is_cut(name):
            torch.distributed.all_reduce(parameters[path].grad)
    model = bridge_torch.parallelize(make(name), manifest, mesh)
    ours = SentCalls(sent_of, KINDS)
    runs = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    found = run_step(name, runs, dict(model.named_parameters()), None if compiled else ours)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b), (name, a.dtype, b.dtype)
    if compiled:
        torch._dynamo.reset()
        return
    sums = collections.Counter(ours.found) - collections.Counter(theirs.found)
    assert not collections.Counter(theirs.found) - collections.Counter(ours.found)
    assert sum(sums.values()) == (2 if is_cut(name) else 0), sums
    if CASES[name][1] == FP64:
        whole = make(name)
        x, weights = batch(name)
        right = whole(x)
        right.backward(weights.double())
        assert (found[0] - right).abs().max() < 1e-9
        for key, p in whole.named_parameters():
            assert (bridge_torch.full_tensor(model, key, gradient=True) - p.grad).abs().max() < 1e-9
    if rank == 0:
        x = batch(name)[0]
        kept = Saved(model, {"x": x}).of(lambda: model(x))
        with open(called, "w") as file:
            json.dump({"sent": ours.found, "kept": kept}, file)
    elif not compiled:
        model(batch(name)[0])


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", CASES)
def test_bits_and_bytes_match_redistribute(tmp_path, ranks, name, count):  # noqa: F811
    model = live_model.torch_text(make(name), {"x": batch(name)[0]})
    files = write(tmp_path, model, plan_text(CASES[name][2], count))
    manifest, called = tmp_path / "manifest.json", tmp_path / "called.json"
    result = run("compile", *files, "-o", manifest)
    assert result.returncode == 0, result.stderr
    ranks.run(count, check_on_rank, name, str(manifest), False, str(called))
    ranks.run(count, check_on_rank, name, str(manifest), True, str(called))
    document, seen = json.loads(manifest.read_text()), json.loads(called.read_text())
    listed = [c for c in document["collectives"] if c["dtype"] != "int64"]
    bits = {"bfloat16": 16, "float16": 16, "float32": 32, "float64": 64}
    assert all(c["bytes"] * 8 == math.prod(c["shape"]) * bits[c["dtype"]] for c in listed)
    forecast = [[c["phase"], c["kind"], math.prod(c["shape"]), c["dtype"]] for c in listed]
    assert sorted(forecast) == sorted(seen["sent"])
    assert document["costs"]["kept"] == seen["kept"]


class Norm(nn.Module):
    """As the norms of transformers: computed in float32, and cast to the dtype of the input."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        given = x.dtype
        x = x.to(FP32)
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)).to(given)


class Layer(nn.Module):
    """A residual stream, a norm of it, and a matmul."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm, self.out = Norm(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.out(self.norm(x + self.down(F.gelu(self.up(x)))))


class Bare(Layer):
    """Without the stream, which promotes narrower dtypes."""

    def forward(self, x):
        return self.out(self.down(F.gelu(self.up(x))))


class Cast(Layer):
    """The code names the dtype of its matmul."""

    def forward(self, x):
        return self.out(self.down(F.gelu(self.up(x))).to(self.out.weight.dtype))


class Attending(Layer):
    """Queries of one dtype and keys of another."""

    def forward(self, x):
        y = self.down(F.gelu(self.up(x)))
        return F.scaled_dot_product_attention(y[:, None], x[:, None], x[:, None])


class Catted(Layer):
    """The wider dtype of both."""

    def forward(self, x):
        return self.out(torch.cat([x, self.down(F.gelu(self.up(x)))], 1)[:, :LENGTH])


# Model, its dtype, the dtype of its reduction.
MIXTURES = [
    (kind, own, forward)
    for kind in (Layer, Bare, Cast, Attending, Catted)
    for own, forward in ((BF16, "float32"), (FP32, "bfloat16"), (BF16, "float16"), (FP32, "float32"))
]


def make_mixture(kind, dtype):
    torch.manual_seed(5)
    return kind().to(dtype), torch.randn(BATCH, LENGTH, WIDTH, dtype=dtype)


def try_on_rank(rank, path, kind, dtype, fails, out):
    manifest = m.load_manifest(path)
    model, x = make_mixture(kind, dtype)
    model = bridge_torch.parallelize(model, manifest, mesh_of(manifest))
    if fails:
        with pytest.raises(RuntimeError, match="dtype"):
            model(x)
        return
    y = model(x)
    y.float().pow(2).sum().backward()
    if rank == 0:
        kept = Saved(model, {"x": x}).of(lambda: model(x))
        with open(out, "w") as file:
            json.dump(kept, file)
    else:
        model(x)


@pytest.mark.parametrize(
    ("kind", "dtype", "forward"), MIXTURES, ids=[f"{k.__name__}-{str(d)[6:]}-{f}" for k, d, f in MIXTURES]
)
def test_mixed_dtype_matmuls_are_errors_as_in_torch(tmp_path, ranks, kind, dtype, forward):  # noqa: F811
    model, x = make_mixture(kind, dtype)
    rules = {"up": {"style": "colwise"}, "down": {"style": "rowwise", "forward_dtype": forward}}
    lines = [f"  {key}: {json.dumps(rule)}\n" for key, rule in rules.items()]
    text = "format: tpplan.plan/1\nmesh: {tp: 2}\ntp_plan:\n  norm.weight: [null]\n  out: replicate\n" + "".join(lines)
    files = write(tmp_path, live_model.torch_text(model, {"x": x}), text)
    found = json.loads(run("check", *files, "--format", "json").stdout)["diagnostics"]
    errors = [d["code"] for d in found if d["severity"] == "error"]
    assert errors in ([], ["TP5123"]), found
    model_file, plan_file = files
    if errors:  # a rejected plan is compiled without its operations
        document = json.loads(model_file.read_text())
        del document["graph"]
        model_file.write_text(json.dumps(document))
    manifest, out = tmp_path / "manifest.json", tmp_path / "out.json"
    result = run("compile", model_file, plan_file, "-o", manifest)
    assert result.returncode == 0, result.stderr
    ranks.run(2, try_on_rank, str(manifest), kind, dtype, bool(errors), str(out))
    if not errors:
        assert json.loads(manifest.read_text())["costs"]["kept"] == json.loads(out.read_text())
