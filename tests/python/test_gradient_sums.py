"""Replicated parameters that each rank uses for its heads or its shard: the diagnostics match the gradients of real ranks, and the
proposed fix gives the gradients of one process."""

import json
import re

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import models  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import live_model, torch_module  # noqa: E402

WIDTH, HEADS, SIZE = 16, 4, 4


class Attention(nn.Module):
    """Norms of the heads next to a fused projection."""

    def __init__(self, kv_heads=HEADS):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = HEADS, kv_heads, SIZE
        self.qkv_proj = nn.Linear(WIDTH, (HEADS + 2 * kv_heads) * SIZE)
        self.q_norm, self.k_norm = models.RMSNorm(SIZE), models.RMSNorm(SIZE)
        self.o_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        fused = self.qkv_proj(x)
        groups = HEADS // self.num_kv_heads
        part = fused.shape[-1] // (groups + 2)
        q, k, v = (
            t.reshape(*t.shape[:2], -1, SIZE).transpose(1, 2)
            for t in fused.split([fused.shape[-1] - 2 * part, part, part], -1)
        )
        k, v = (t.repeat_interleave(groups, 1) for t in (self.k_norm(k), v))
        out = F.scaled_dot_product_attention(self.q_norm(q), k, v, is_causal=True).transpose(1, 2)
        return x + self.o_proj(out.reshape(*out.shape[:2], -1))


class Grouped(Attention):
    def __init__(self):
        super().__init__(HEADS // 2)


class Scaled(nn.Module):
    """Learned factors between a colwise and a rowwise projection."""

    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(WIDTH, 24), nn.PReLU(), nn.Linear(24, WIDTH)
        self.gain = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.down(self.act(self.up(x)) * self.gain)


class Gained(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = Scaled()

    def forward(self, x):
        return x + self.mlp(x)


class Scan(nn.Module):
    def __init__(self, inner, states):
        super().__init__()
        self.A_log, self.D = nn.Parameter(torch.randn(inner, states)), nn.Parameter(torch.ones(inner))

    def forward(self, x, step, into, out_of):
        decay = torch.exp(step[..., None] * -torch.exp(self.A_log))
        pushed = (step * x)[..., None] * into[..., None, :]
        state, found = torch.zeros_like(pushed[:, 0]), []
        for t in range(x.shape[1]):
            state = state * decay[:, t] + pushed[:, t]
            found.append((state * out_of[:, t, None, :]).sum(-1))
        return torch.stack(found, 1) + x * self.D


class Mamba(nn.Module):
    """x_proj computes the step, the input of a colwise projection, and two factors that are combined with each rank's channels."""

    def __init__(self, inner=32, states=4, rank=4):
        super().__init__()
        self.sizes = [rank, states, states]
        self.x_in, self.z_in = nn.Linear(WIDTH, inner), nn.Linear(WIDTH, inner)
        self.x_proj, self.dt_proj = nn.Linear(inner, sum(self.sizes), bias=False), nn.Linear(rank, inner)
        self.scan, self.out_proj = Scan(inner, states), nn.Linear(inner, WIDTH)

    def forward(self, x):
        inside = F.silu(self.x_in(x))
        step, into, out_of = self.x_proj(inside).split(self.sizes, -1)
        found = self.scan(inside, F.softplus(self.dt_proj(step)), into, out_of)
        return self.out_proj(found * F.silu(self.z_in(x)))


FUSED = {"qkv_proj": "colwise", "o_proj": "rowwise"}
LINEAR = {"mlp.up": "colwise", "mlp.down": "rowwise"}
MAMBA = {"x_in": "colwise", "z_in": "colwise", "x_proj": "rowwise", "dt_proj": "colwise", "out_proj": "rowwise",
         "scan.A_log": {"spec": ["tp", None]}, "scan.D": {"spec": ["tp"]}}  # fmt: skip
LOCAL = MAMBA | {"scan": "local_params"}
DTENSORS = MAMBA | {n: {"style": MAMBA[n], "use_local_output": False} for n in ("x_in", "z_in", "x_proj", "dt_proj")}

# Model, plan, parameters with a wrong gradient, and a correct plan (None: the one that the checker proposes).
CASES = {
    "norms beside a fused projection": (Attention, FUSED, {"q_norm.weight", "k_norm.weight"}, None),
    "norms beside a fused projection of groups": (Grouped, FUSED, {"q_norm.weight", "k_norm.weight"}, None),
    "numbers between two projections": (Gained, LINEAR, {"mlp.gain", "mlp.act.weight"}, None),
    "factors of a scan": (Mamba, LOCAL, {"x_proj.weight", "x_in.weight", "x_in.bias"}, DTENSORS),
}


def make(kind):
    torch.manual_seed(2)
    return kind().double()


def batch():
    return torch.randn(2, 4, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def plan_of(rules):
    lines = "".join(f"  {json.dumps(key)}: {json.dumps(rule)}\n" for key, rule in rules.items())
    return f"format: tpplan.plan/1\nmesh: {{tp: 2}}\ntp_plan:\n{lines}"


def gradients_differ_in(rank, kind, path, wrong):
    manifest = m.load_manifest(path)
    whole, spread = make(kind), bridge_torch.parallelize(make(kind), manifest, mesh_of(manifest))
    outputs = [model(batch()) for model in (whole, spread)]
    assert (outputs[0] - outputs[1]).abs().max() < 1e-9
    for output in outputs:
        output.pow(2).sum().backward()
    differ = {
        name
        for name, parameter in whole.named_parameters()
        if (bridge_torch.full_tensor(spread, name, gradient=True) - parameter.grad).abs().max() > 1e-9
    }
    assert differ == wrong


@pytest.mark.parametrize("name", CASES)
def test_missing_gradient_reductions_are_found_and_fixed(tmp_path, ranks, name):  # noqa: F811
    kind, rules, wrong, right = CASES[name]
    text = live_model.torch_text(make(kind), {"x": batch()})
    paths = bridge.write(tmp_path, text, plan_of(rules))
    found = json.loads(bridge.run("check", *paths, "--format", "json").stdout)["diagnostics"]
    assert {d["code"] for d in found} == {"TP5111"} and {d["fails"] for d in found} == {"gradient"}
    if right is None:
        assert {next(w for w in wrong if f"`{w}`" in d["message"]) for d in found} == wrong
        right = rules | dict(re.findall(r'`"([\w.]+)": (\w+)`', found[0]["help"]))
    # Without operations the checker knows nothing about gradients, and those of the ranks are wrong.
    unknown = bridge.compile_manifest(tmp_path, torch_module.model_graph(make(kind)), plan_of(rules))
    ranks.run(2, gradients_differ_in, kind, str(unknown), wrong)
    ranks.run(
        2, gradients_differ_in, kind, str(bridge.compile_manifest(tmp_path, json.loads(text), plan_of(right))), set()
    )


def test_vocabulary_sharded_logits_error_proposes_a_gather(tmp_path):
    model = models.Llama().double()
    text = live_model.torch_text(model, {"tokens": torch.zeros(2, 8, dtype=torch.long)})
    found = json.loads(
        bridge.run("check", *bridge.write(tmp_path, text, plan_of({"head": "colwise"})), "--format", "json").stdout
    )
    (error,) = found["diagnostics"]
    assert error["code"] == "TP5110" and "`colwise_gather_output` for `head`" in error["help"]
    plain = json.dumps(torch_module.model_graph(model))
    found = json.loads(
        bridge.run("check", *bridge.write(tmp_path, plain, plan_of({"head": "colwise"})), "--format", "json").stdout
    )
    (warning,) = found["diagnostics"]
    assert warning["code"] == "TP5150" and "colwise_gather_output" in warning["help"]
