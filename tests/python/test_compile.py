"""torch.compile of a parallelized model: outputs and gradients match one process, in one graph. The known graph breaks are listed (`-s`
prints them)."""

import shutil

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Shard, distribute_tensor  # noqa: E402

import models  # noqa: E402
import test_torch_training as training  # noqa: E402
from bridge import mesh_of, ranks  # noqa: E402, F401
from tpplan import compare_transformers  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402

HEAD = "format: tpplan.plan/1\nmesh: {tp: 2}\n"
UNITS = (
    "format: tpplan.plan/1\nmesh: {data: 2}\ntp_plan: {}\ndata: {axes: [data]}\n"
    "fsdp: {axis: data, min_weight_size: 0, units: [layers.*]}\n"
)
FUSED = "tp_plan: {words: replicate}\nblocks: {'blocks.*': {qkv: colwise, out: rowwise, up: colwise, down: rowwise}}\n"


class Words(nn.Module):
    """A sharded embedding and two projections."""

    def __init__(self):
        super().__init__()
        self.embed, self.up, self.down = nn.Embedding(33, 8, padding_idx=-1), nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, tokens):
        return self.down(torch.relu(self.up(self.embed(tokens))))


class Recurrent(Words):
    """torch.compile does not compile an nn.LSTM, nor the forward that calls it."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 12, batch_first=True)

    def forward(self, tokens):
        return self.down(self.lstm(self.up(self.embed(tokens)))[0])


class InPlace(Words):
    def forward(self, tokens):
        x = self.embed(tokens)
        x *= 2.0
        y = torch.relu_(self.up(x))
        y = self.down(y)
        y += 1
        return y


class Breaking(nn.Embedding):
    def forward(self, tokens):
        found = super().forward(tokens)
        torch._dynamo.graph_break()
        return found


class Broken(Words):
    def __init__(self):
        super().__init__()
        self.embed = Breaking(33, 8)


class Pieces(nn.Module):
    """Attention and convolutions, sharded by rules for their parameters."""

    def __init__(self):
        super().__init__()
        self.words, self.conv = nn.Embedding(33, 8), nn.Conv1d(8, 8, 3, padding=1)
        self.qkv, self.out = nn.Parameter(torch.randn(3, 8, 2, 4)), nn.Parameter(torch.randn(2, 4, 8))

    def forward(self, tokens):
        x = self.words(tokens)
        q, k, v = (torch.einsum("btd,dhk->bhtk", x, w) for w in self.qkv.unbind(0))
        x = x + torch.einsum("bhtk,hkd->btd", nn.functional.scaled_dot_product_attention(q, k, v), self.out)
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


PIECES = (
    "tp_plan: {qkv: [null, null, tp, null], out: [tp, null, null], conv.weight: [tp, null, null], conv.bias: [tp]}\n"
)
RECURRENT = "tp_plan: {up: colwise_gather_output, down: colwise_gather_output}\n"
WORDS = "uneven: torch\ntp_plan: {embed: embedding_rowwise, up: colwise, down: rowwise}\n"

# Model, plan, backend, number of graph breaks.
CASES = {
    "an embedding cut over its vocabulary": (Words, WORDS, "aot_eager", 0),
    "decoder": (lambda: models.Llama(layers=1), training.TP, "aot_eager", 0),
    "segments, whose modules run by themselves": (lambda: models.Encoder(layers=1, fused=True), FUSED, "aot_eager", 1),
    "a break of the graph behind the look-up": (Broken, WORDS, "aot_eager", 4),
    "attention and convolutions by pieces": (Pieces, PIECES, "aot_eager", 0),
    "an LSTM": (Recurrent, RECURRENT, "aot_eager", 1),
    "changes in place": (InPlace, WORDS, "aot_eager", 0),
    "units, whose parameters are gathered one by one": (lambda: models.Llama(layers=1), UNITS, "aot_eager", 0),
    "kernels": (Words, WORDS, "inductor", 0),
}


def make(name):
    torch.manual_seed(1)
    return CASES[name][0]().double()


def compiles(rank, name, path):
    import torch._dynamo

    _, _, backend, breaks = CASES[name]
    manifest = m.load_manifest(path)
    whole, spread = make(name), bridge_torch.parallelize(make(name), manifest, mesh_of(manifest))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(spread, backend=backend, fullgraph=not breaks)
    tokens = torch.arange(16).view(2, 8) * 2 + 1
    for _ in range(2):
        outputs = [model(tokens) for model in (whole, compiled)]
        assert (outputs[0] - outputs[1]).abs().max() < 1e-9
        for output in outputs:
            output.pow(2).sum().backward()
    batches = 2 if manifest.data_axes else 1  # here they are identical, and are summed
    for path, parameter in whole.named_parameters():
        gradient = bridge_torch.full_tensor(spread, path, gradient=True) / batches
        assert (gradient - parameter.grad).abs().max() < 1e-9, path
    counts = torch._dynamo.utils.counters
    if rank == 0:
        print(
            f"\n{name}: {counts['stats']['unique_graphs']} graphs, {sum(counts['graph_break'].values())} breaks:",
            *counts["graph_break"],
        )
    assert sum(counts["graph_break"].values()) <= breaks
    # A compiled model leaves no state that breaks the eager one.
    assert (spread(tokens) - outputs[0]).abs().max() < 1e-9


@pytest.mark.parametrize("name", CASES)
def test_compiled_model_matches_one_process(tmp_path, ranks, name):  # noqa: F811
    if CASES[name][2] == "inductor" and not shutil.which("g++"):
        pytest.skip("inductor needs a compiler")
    graph, plan = torch_module.model_graph(make(name)), CASES[name][1]
    ranks.run(2, compiles, name, str(bridge.compile_manifest(tmp_path, graph, plan if plan is UNITS else HEAD + plan)))


def unasked(x):
    """One of the two DTensor outputs of a graph needs no gradient."""
    one, other = x * 2, x * 3
    torch._dynamo.graph_break()
    return one.sum() + other.detach().sum()


def turned(x):
    """A graph returns a view of a DTensor."""
    view = x.view(2, 2, 4)
    torch._dynamo.graph_break()
    return view.sum() * 2


@pytest.mark.parametrize("step, said", [(unasked, "Expected a DTensor tangent"), (turned, "as_strided not supported")])
def test_dtensors_between_graphs_still_fail_in_torch(step, said):
    """Keras' step has many graphs. Once torch supports this, tpplan.keras_torch.steps may compile it."""
    with compare_transformers.fake_ranks(2):
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(1)]).requires_grad_()
        torch._dynamo.reset()
        torch.compile(step, backend="eager")(x).full_tensor().backward()
        assert x.grad is not None
        torch._dynamo.reset()
        with pytest.raises(RuntimeError, match=said):
            torch.compile(step, backend="aot_eager")(x).full_tensor().backward()
