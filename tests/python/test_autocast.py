"""Plans under torch.autocast, whose dtypes the manifest does not contain: steps compared with one process, and the dtypes that ranks
send."""

import bridge
import pytest

bridge.needs("torch")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from bridge import mesh_of, ranks  # noqa: E402, F401
from sent_calls import SentCalls  # noqa: E402
from tpplan import manifest as m  # noqa: E402
from tpplan import torch as bridge_torch  # noqa: E402
from tpplan.export import torch_module  # noqa: E402

PLAN = """format: tpplan.plan/1
mesh: {tp: 2}
tp_plan: {words: embedding_rowwise, up: colwise, down: {style: rowwise%s}, head: colwise_gather_output}
"""
FSDP = """format: tpplan.plan/1
mesh: {data: 2}
tp_plan: {}
data: {axes: [data]}
fsdp: {axis: data, min_weight_size: 0, units: %s}
"""
# Plan, dtypes sent forward over model axes: of the embedding lookup, of the reduced matmul and of the head's columns.
CASES = {
    "sums in the type of products": (PLAN % "", ["float32", "bfloat16", "bfloat16"]),
    "a sum in float32": (PLAN % ", forward_dtype: float32", ["float32", "float32", "bfloat16"]),
    "parameters one by one": (FSDP % "[]", []),
    "units": (FSDP % "[up, down]", []),
}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(32, 16), nn.LayerNorm(16)
        self.up, self.down, self.head = nn.Linear(16, 64), nn.Linear(64, 16), nn.Linear(16, 32)

    def forward(self, tokens):
        x = self.words(tokens)
        return self.head(x + self.down(F.gelu(self.up(self.norm(x)))))


def make():
    torch.manual_seed(3)
    return Model()


def step(model, tokens, watch):
    with watch, torch.autocast("cpu", torch.bfloat16):
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten(), reduction="sum") / 32
    watch.phase = "backward"
    with watch:
        loss.backward()
    return logits


def sent(phase, kind, given):
    return phase, str(given.dtype)[6:]


def trains(rank, path, dtypes):
    manifest = m.load_manifest(path)
    whole, model = make(), bridge_torch.parallelize(make(), manifest, mesh_of(manifest))
    tokens, watch = torch.arange(32).view(4, 8), SentCalls(sent)
    mine = tokens.chunk(2)[rank] if manifest.data_axes else tokens
    expected, found = step(whole, tokens, SentCalls(sent)), step(model, mine, watch)
    expected = expected.chunk(2)[rank] if manifest.data_axes else expected
    assert found.dtype == expected.dtype == torch.bfloat16
    assert (found - expected).abs().max() < 0.02
    for name, parameter in whole.named_parameters():
        gradient = bridge_torch.full_tensor(model, name, gradient=True)
        assert gradient.dtype == parameter.grad.dtype == torch.float32
        assert (gradient - parameter.grad).norm() < 0.02 * parameter.grad.norm() + 1e-6, name
    assert [dtype for phase, dtype in watch.found if phase == "forward"] == dtypes
    assert {dtype for phase, dtype in watch.found if phase == "backward"} <= {"float32"}


@pytest.mark.parametrize("name", CASES)
def test_autocast_step_matches_one_process(tmp_path, ranks, name):  # noqa: F811
    plan, dtypes = CASES[name]
    manifest = bridge.compile_manifest(tmp_path, torch_module.model_graph(make()), plan)
    ranks.run(2, trains, str(manifest), dtypes)
