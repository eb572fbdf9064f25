"""User models with rules for modules that are neither Linear nor Embedding: three steps with clipping match one process, the plan has no
diagnostics, and training resumes from torch's checkpoint on another mesh."""

import warnings

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from bridge import PROGRAM, ranks  # noqa: E402, F401
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import tpplan  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402

WORDS, SIZE, HEADS, LENGTH = 32, 16, 4, 8


class Ends(nn.Module):
    """An embedding shared with the head, scaled, and two blocks between them."""

    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, SIZE), nn.ModuleList(self.block() for _ in range(2))
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, tokens):
        x = self.words(tokens) * SIZE**0.5
        for block in self.blocks:
            x = x + block(x)
        return F.linear(x, self.words.weight) * self.scale


class ByEinsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(SIZE, HEADS, 4) * 0.2) for _ in range(3))
        self.wo, self.gain = nn.Parameter(torch.randn(HEADS, 4, SIZE) * 0.2), nn.Parameter(torch.ones(4))

    def forward(self, x):
        q, k, v = (torch.einsum("btd,dhk->bhtk", x, w) for w in (self.wq, self.wk, self.wv))
        attended = F.scaled_dot_product_attention(F.rms_norm(q, (4,), self.gain), k, v, is_causal=True)
        return torch.einsum("bhtk,hkd->btd", attended, self.wo)


class ByConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.back = nn.Conv1d(SIZE, 24, 3, padding=1), nn.Conv1d(24, SIZE, 1)

    def forward(self, x):
        return self.back(F.gelu(self.mix(x.transpose(1, 2)))).transpose(1, 2)


class Lora(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.base, self.a, self.b = nn.Linear(into, out), nn.Linear(into, 2, bias=False), nn.Linear(2, out, bias=False)
        self.base.weight.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + 0.5 * self.b(self.a(x))


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = Lora(SIZE, 24), Lora(24, SIZE)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.ws = nn.ParameterList([torch.randn(SIZE, 24) * 0.2, torch.randn(24, SIZE) * 0.2])
        self.ends = nn.ParameterDict({"gain": torch.ones(SIZE), "shift": torch.zeros(SIZE)})

    def forward(self, x):
        return (F.gelu(x @ self.ws[0]) @ self.ws[1]) * self.ends["gain"] + self.ends["shift"]


def of(block):
    return type(f"Ends{block.__name__}", (Ends,), {"block": block})


class Named(nn.Module):
    """A forward with keyword-only arguments, which recomputes its blocks with a custom autograd function."""

    def __init__(self):
        super().__init__()
        self.inner = of(Adapted)()

    def forward(self, *, tokens):
        inner = self.inner
        x = inner.words(tokens)
        for block in inner.blocks:
            x = x + checkpoint(block, x, use_reentrant=True)
        return F.linear(x, inner.words.weight) * inner.scale


TABLE = {"words": {"style": "rowwise", "input_layouts": "Replicate"}}
LORA = {"*.up.base": "colwise", "*.up.b": "colwise", "*.down.base": "rowwise", "*.down.a": "rowwise"}
CASES = {
    "einsum": (of(ByEinsum), TABLE | {"*.w[qkv]": [None, "tp", None], "*.wo": ["tp", None, None]}),
    "convolution": (of(ByConvolution), {"words.weight": [None, "tp"], "*.mix.weight": ["tp", None, None],
                    "*.mix.bias": ["tp"], "*.back.weight": [None, "tp", None]}),
    "lora": (of(Adapted), TABLE | LORA),
    "lists": (of(Listed), TABLE | {"*.ws.0": [None, "tp"], "*.ws.1": ["tp", None]}),
    "names alone, and a checkpoint": (Named, {"inner.words": TABLE["words"]} | LORA),
}  # fmt: skip


def make(name):
    torch.manual_seed(1)
    return CASES[name][0]().double()


def trained(model, tokens, targets):
    """(losses, gradient norms, optimizer) of three steps."""
    optimizer, losses, norms = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2), [], []
    for _ in range(3):
        optimizer.zero_grad()
        losses.append(F.cross_entropy(model(tokens=tokens).flatten(0, 1), targets.flatten()))
        losses[-1].backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        norms.append(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        optimizer.step()
    return torch.stack(losses).detach(), torch.stack(norms), optimizer


def check_same(spread, whole):
    for name, parameter in whole.named_parameters():
        assert (bridge_torch.full_tensor(spread, name) - parameter).abs().max() < 1e-9, name


def trains(rank, name, folder):
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    bridge.os.environ["TPPLAN"] = PROGRAM
    generator = torch.Generator().manual_seed(2)
    tokens, targets = (torch.randint(0, WORDS, (4, LENGTH), generator=generator) for _ in range(2))
    inputs = {"tokens": torch.zeros(2, LENGTH, dtype=torch.long)}
    whole, spread = make(name), make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tpplan.PlanWarning)
        bridge_torch.parallelize(
            spread, {"tp_plan": CASES[name][1]}, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), inputs=inputs
        )
    *wanted, _ = trained(whole, tokens, targets)
    *found, optimizer = trained(spread, tokens, targets)
    for one, other in zip(found, wanted):
        assert (one - other).abs().max() < 1e-9, (found, wanted)
    check_same(spread, whole)
    weights, state = get_state_dict(spread, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    plan = {"data": {"axes": ["data"]}, "fsdp": {"min_weight_size": 0, "policy": "largest_dim", "axis": "data"}}
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("data",))
    again = bridge_torch.parallelize(make(name), plan, mesh, inputs=inputs)
    optimizer = torch.optim.AdamW([p for p in again.parameters() if p.requires_grad], 1e-2)
    weights, state = get_state_dict(again, optimizer)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(again, optimizer, model_state_dict=weights, optim_state_dict=state)
    check_same(again, whole)


@pytest.mark.parametrize("name", CASES)
def test_user_models_train_and_resume_as_one_process(tmp_path, ranks, name):  # noqa: F811
    ranks.run(2, trains, name, str(tmp_path))
