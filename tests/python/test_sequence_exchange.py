"""Calls of attention across a sharded sequence: the manifest lists those that torch's ring attention sends, forward and backward, on 2
and 4 gloo ranks. The kernels of context_parallel() need a GPU, so the ring runs with another kernel."""

import json
import math

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from bridge import compile_manifest, ranks  # noqa: E402, F401
from torch import nn  # noqa: E402

from tpplan.export import torch_module  # noqa: E402
from tpplan.graph.settings import Settings, header  # noqa: E402
from tpplan.graph.tables import tables, text  # noqa: E402
from tpplan.graph.trace import trace  # noqa: E402

BATCH, LOCAL, HEADS, KV, SIZE = 2, 4, 4, 2, 8


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, h * SIZE) for h in (HEADS, KV, KV))
        self.o = nn.Linear(HEADS * SIZE, 16)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (-1, SIZE)).transpose(1, 2) for w in (self.q, self.k, self.v))
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(a.transpose(1, 2).flatten(2))


def kernel(query, key, value, is_causal=False, **_):
    """Output and logsumexp of plain attention, as torch's kernels return them."""
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def backward_kernel(query, key, value, **_):
    return tuple(torch.zeros_like(t) for t in (query, key, value))


def sends(rank, method, expected):
    """Compares the calls of a ring over all ranks with the forecast."""
    from sent_calls import FUNCTIONAL, SentCalls
    from torch.distributed.tensor.experimental._context_parallel import _attention as ring

    kinds = FUNCTIONAL | {"_c10d_functional::all_to_all_single": "all_to_all"}
    world = torch.distributed.group.WORLD
    ring.set_rotate_method(method)
    ring._cp_options.enable_load_balance = False
    generator = torch.Generator().manual_seed(rank)
    q, k, v = (torch.randn(BATCH, heads, LOCAL, SIZE, generator=generator) for heads in (HEADS, KV, KV))
    with SentCalls(lambda *call: (*call[:2], list(call[2].shape), str(call[2].dtype)), kinds) as calls:
        out, lse = ring._templated_ring_attention(world, 2, kernel, q, k, v, is_causal=True)
        calls.phase = "backward"
        ring._templated_ring_attention_backward(
            world, 2, backward_kernel, torch.ones_like(out), "grad_out", q, k, v, out, lse, True
        )
    assert [tuple(call) for call in expected] == [(p, k, tuple(s), d) for p, k, s, d in calls.found], calls.found


@pytest.mark.parametrize("size", (2, 4))
@pytest.mark.parametrize("attention, method", [("ring", "allgather"), ("all_to_all", "alltoall")])
@pytest.mark.parametrize("tp", (1, 2))
def test_forecast_lists_the_calls_of_the_ring(tmp_path, ranks, attention, method, size, tp):  # noqa: F811
    """With heads sharded over tp a rank sends its part of the keys and values; the ring itself runs without tp."""
    model = Attention()
    graph = tables(trace(model, (torch.zeros(BATCH, LOCAL, 16),), {}, "cpu"), header(Settings(batch=BATCH), "float32"))
    plan = {
        "format": "tpplan.plan/1",
        "mesh": {"cp": size, "tp": tp},
        "tp_plan": {"[qkv]": "colwise", "o": "rowwise"},
        "data": {"axes": ["cp"], "dim": 1, "attention": attention},
    }
    file = torch_module.model_graph(model) | {"graph": json.loads(text(graph))}
    manifest = json.loads(compile_manifest(tmp_path, file, json.dumps(plan), "--allow", "TP4007").read_text())
    elements = BATCH * LOCAL * SIZE * 2 * KV
    calls = [call for call in manifest["collectives"] if call["axis"] == "cp" and call["module"] == ""]
    assert all(call["shape"] == [elements // tp] and call["bytes"] == elements * 4 // tp for call in calls)
    if tp == 1:
        ranks.run(
            size, sends, method, [(c["phase"], c["kind"], tuple(c["shape"]), f"torch.{c['dtype']}") for c in calls]
        )


def test_other_runtimes_list_no_calls_over_data_axes(tmp_path):
    model = Attention()
    graph = tables(trace(model, (torch.zeros(BATCH, LOCAL, 16),), {}, "cpu"), header(Settings(batch=BATCH), "float32"))
    plan = {
        "format": "tpplan.plan/1",
        "dialect": "torch",
        "mesh": {"cp": 2, "tp": 2},
        "tp_plan": {"[qkv]": "colwise", "o": "rowwise"},
        "data": {"axes": ["cp"], "dim": 1, "attention": "ring"},
    }
    file = torch_module.model_graph(model) | {"graph": json.loads(text(graph))}
    manifest = json.loads(compile_manifest(tmp_path, file, json.dumps(plan)).read_text())
    assert manifest["step"]["unlisted"] == ["cp"] and all(call["axis"] == "tp" for call in manifest["collectives"])
